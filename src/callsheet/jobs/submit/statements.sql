-- database: pool

-- part: new_job_columns
tenant_id, id, user_id, kind, cost, workflow_id, stage, provider, concurrency_identifier, priority, max_attempts,
lease_seconds, run_limit_seconds, payload, effect_id, video_id, input_file_ids, idempotency_key, request_hash,
request_fields, actor, queue_name, workflow_run_id, run_id, step_id, parent_candidate_id, batch_id, batch_item,
refund_on_cancel, medium, client_reference, metadata, webhook_url,
key_id

-- part: after_new_job
-- All users are locked before the first tenant. Otherwise, PostgreSQL 17 reads the next row of `new_job` after it:
-- the rows are in the order of tenants already.
(SELECT count(*) FROM new_job) >= 0

-- part: after_locked_wallet
(SELECT count(*) FROM locked_wallet) >= 0

-- part: with_settings
CROSS JOIN LATERAL (
    SELECT pays_for_users, has_budgets FROM pool_tenants WHERE tenant_id = tenant.tenant_id LIMIT 1
) settings

-- part: runs_reservation
-- PostgreSQL runs a CTE that only calls functions if the statement reads it.
(SELECT count(*) FROM reservation) >= 0

-- part: runs_filled_slot
(SELECT count(*) FROM filled_slot) >= 0

-- part: runs_delivery
(SELECT count(*) FROM delivery) >= 0

-- part: job_and_limits
job, (job).tenant_id, (job).user_id, (job).id AS job_id, description, event_actor, request_id, slot, counted_as,
active_limit, submits_per_minute, user_storage_bytes, user_storage_files, tenant_storage_bytes, tenant_storage_files,
user_database_bytes

-- part: new_entries
jsonb_to_recordset(:entries::jsonb) AS e (
    job ai_jobs, description job_descriptions, event_actor text, request_id text, slot jsonb, counted_as text,
    active_limit integer, submits_per_minute integer, user_storage_bytes bigint, user_storage_files bigint,
    tenant_storage_bytes bigint, tenant_storage_files bigint, user_database_bytes bigint)

-- part: checks
-- What `submit` requires besides the tokens. `quote` finds the same.
active_jobs_as(tenant_id, user_id, counted_as) AS active,
CASE WHEN (job).input_file_ids = '{}' THEN true ELSE files_ready(tenant_id, user_id, (job).input_file_ids)
    = cardinality((job).input_file_ids) END AS has_files,
CASE WHEN (job).video_id IS NULL THEN true ELSE video_is_free(tenant_id, user_id, (job).video_id) END AS has_video,
CASE WHEN (job).webhook_url IS NULL THEN true
    ELSE webhook_endpoint_of(tenant_id, user_id, (job).webhook_url) IS NOT NULL END AS has_webhook,
storage_has_room(tenant_id, user_id, user_storage_bytes, user_storage_files, tenant_storage_bytes,
    tenant_storage_files, user_database_bytes) AS has_room,
CASE WHEN (job).run_id IS NULL AND submits_per_minute IS NOT NULL
    THEN submit_wait(tenant_id, user_id, submits_per_minute) END AS wait_seconds

-- name: quote
-- Locks and writes nothing, so a submit a moment later may find something else.
SELECT payer.balance, payer.paid_by_tenant, {checks},
    CASE WHEN payer.has_budgets
        THEN budget_refusal(tenant_id, user_id, (job).key_id, (job).provider, (job).cost) END AS budget_refusal
FROM (SELECT {job_and_limits} FROM {new_entries}) j
CROSS JOIN LATERAL payer_balance(tenant_id, user_id) payer

-- name: submit
-- Writes jobs, tokens, events and outbox in one commit. It locks the wallet of each user first. What it counts
-- afterwards (active_jobs_as is volatile) includes everything that was committed while it waited for the lock. A
-- statement has at most one job per user, because two of them would not count each other. Two jobs of a tenant may find
-- room in the same budget, or in the wallet of the tenant; `budgets_take` or `wallet_is_never_negative` then refuses
-- the whole statement, and the jobs are submitted one by one.
-- `job` and `description` are rows of their tables, so that the columns of a job are named in one place.
-- one statement because: several statements would hold the lock of the wallet for several round trips.
WITH new_job AS MATERIALIZED (
    SELECT {job_and_limits}, wallet_lock((job).tenant_id, (job).user_id) AS balance_of_user FROM {new_entries}
    ORDER BY tenant_id, user_id
), locked_tenant AS MATERIALIZED (
    -- A tenant without budgets whose users have wallets of their own costs one look at its row.
    SELECT tenant_id, pays_for_users AS paid_by_tenant,
        CASE WHEN pays_for_users THEN wallet_lock(tenant_id, tenant_id) END AS balance_of_tenant,
        CASE WHEN has_budgets THEN budgets_lock(tenant_id) END AS has_budgets
    FROM (SELECT DISTINCT tenant_id FROM new_job WHERE {after_new_job} ORDER BY tenant_id) tenant
    {with_settings}
), checked_job AS MATERIALIZED (
    SELECT job, tenant_id, job_id, has_budgets, paid_by_tenant, description, event_actor, request_id, slot,
        active_limit, CASE WHEN paid_by_tenant THEN balance_of_tenant ELSE balance_of_user END AS balance,
        clock_timestamp() AS now, {checks},
        -- A place in the tree of a run, which belongs to a higher room in the same database.
        CASE WHEN slot IS NOT NULL THEN slot_refusal(tenant_id, user_id, (job).cost, slot) END AS slot_refusal,
        CASE WHEN has_budgets
            THEN budget_refusal(tenant_id, user_id, (job).key_id, (job).provider, (job).cost) END AS budget_refusal
    FROM new_job LEFT JOIN locked_tenant USING (tenant_id)
), accepted_job AS (
    INSERT INTO ai_jobs ({new_job_columns}, paid_by_tenant, status, event_seq, lifetime_seconds, created_at,
        submitted_at, deadline_at, counted_bytes)
    SELECT {new_job_columns}, is_paid_by_tenant, :to_status, 1, :lifetime_seconds, now, now,
        now + make_interval(secs => :lifetime_seconds::integer),
        pg_column_size(payload) + coalesce(pg_column_size(sent), 0) + coalesce(pg_column_size(slot), 0)
    FROM (
        SELECT (job).*, paid_by_tenant AS is_paid_by_tenant, (description).sent, slot, now FROM checked_job
        WHERE balance >= (job).cost AND active < active_limit AND has_files AND has_video AND has_room
          AND has_webhook AND wait_seconds IS NULL AND slot_refusal IS NULL AND budget_refusal IS NULL
    ) accepted
    ON CONFLICT (tenant_id, user_id, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
    RETURNING tenant_id, user_id, id AS job_id, kind, status, charge_cycle, cost, effect_id, video_id, created_at,
        deadline_at, paid_by_tenant
), event AS (
    INSERT INTO job_events (tenant_id, job_id, seq, user_id, user_seq, event, to_status, actor, data, request_id)
    SELECT tenant_id, job_id, 1, user_id, next_user_seq(tenant_id, user_id, 1), 'job.created', status, event_actor,
        jsonb_build_object('type', kind, 'cost', cost), request_id
    FROM accepted_job JOIN checked_job USING (tenant_id, job_id)
    ORDER BY tenant_id, user_id
), new_description AS (
    INSERT INTO job_descriptions (tenant_id, user_id, job_id, title, input_name, prompt, search_text, sent)
    SELECT tenant_id, user_id, job_id, (description).title, (description).input_name, (description).prompt,
        (description).search_text, (description).sent
    FROM accepted_job JOIN checked_job USING (tenant_id, job_id)
    WHERE (description).title IS NOT NULL
), new_outbox AS (
    INSERT INTO outbox (tenant_id, job_id, charge_cycle, action)
    SELECT tenant_id, job_id, charge_cycle, 'dispatch' FROM accepted_job
), reservation AS MATERIALIZED (
    SELECT wallet_move(a.tenant_id, a.user_id, 'JOB_RESERVE', -a.cost, job_id, charge_cycle, NULL,
            NULL, CASE WHEN has_budgets
                THEN budgets_take(a.tenant_id, a.user_id, (job).key_id, (job).provider, a.cost) END, a.paid_by_tenant),
        CASE WHEN video_id IS NOT NULL THEN video_take(a.tenant_id, video_id, job_id, effect_id, status) END
    FROM accepted_job a JOIN checked_job c USING (job_id)
    WHERE a.tenant_id = c.tenant_id
), filled_slot AS MATERIALIZED (
    SELECT slot_take(tenant_id, job_id, cost, slot) FROM accepted_job JOIN checked_job USING (tenant_id, job_id)
    WHERE slot IS NOT NULL
), delivery AS MATERIALIZED (
    -- A tenant without endpoints costs one look at an index.
    SELECT deliveries_write(tenant_id, job_id) FROM accepted_job a
    WHERE EXISTS (SELECT FROM webhook_endpoints WHERE tenant_id = a.tenant_id)
)
SELECT tenant_id, job_id, created_at AS accepted_at, deadline_at, balance, c.paid_by_tenant, active, has_files,
    has_video, has_room, has_webhook, wait_seconds, slot_refusal, budget_refusal
FROM checked_job c LEFT JOIN accepted_job USING (tenant_id, job_id)
WHERE {runs_reservation} AND {runs_filled_slot} AND {runs_delivery}

-- name: lock_owners
-- For several statements in one transaction whose users differ: all locks are taken in their order before the first.
WITH locked_wallet AS MATERIALIZED (
    SELECT tenant_id, wallet_lock(tenant_id, user_id) FROM (
        SELECT DISTINCT tenant_id, user_id FROM unnest(:tenant_ids::uuid[], :user_ids::uuid[]) AS o (tenant_id, user_id)
        ORDER BY tenant_id, user_id
    ) owner
)
SELECT CASE WHEN pays_for_users THEN wallet_lock(tenant_id, tenant_id) END,
    CASE WHEN has_budgets THEN budgets_lock(tenant_id) END
FROM (SELECT DISTINCT tenant_id FROM locked_wallet WHERE {after_locked_wallet} ORDER BY tenant_id) tenant
{with_settings}

-- name: budget_refused
SELECT budget_refused(:tenant_id, :budget_id)

-- part: batch_checks
-- What the jobs of a batch require besides the tokens. `quote_batch` finds the same.
active_jobs_as(:tenant_id, :user_id, :counted_as) AS active,
files_ready(:tenant_id, :user_id, :file_ids::uuid[]) = cardinality(:file_ids::uuid[]) AS has_files,
storage_has_room(:tenant_id, :user_id, :user_storage_bytes::bigint, :user_storage_files::bigint,
    :tenant_storage_bytes::bigint, :tenant_storage_files::bigint, :user_database_bytes::bigint) AS has_room,
:webhook_url::text IS NULL OR webhook_endpoint_of(:tenant_id, :user_id, :webhook_url) IS NOT NULL AS has_webhook,
CASE WHEN has_budgets THEN budget_refusal(:tenant_id, :user_id, :key_id, :provider, :cost::bigint) END AS budget_refusal

-- name: check_batch
-- Locks the user, the wallet that pays and the budgets, and reads what decides whether the jobs of a batch are
-- accepted. The caller writes them in the same transaction.
WITH payer AS MATERIALIZED (
    SELECT balance, paid_by_tenant, has_budgets FROM payer_lock(:tenant_id, :user_id)
)
SELECT balance, paid_by_tenant, has_budgets, {batch_checks} FROM payer

-- name: quote_batch
-- Locks and writes nothing, so a submit a moment later may find something else.
SELECT balance, paid_by_tenant, has_budgets, {batch_checks} FROM payer_balance(:tenant_id, :user_id)

-- name: submit_batch
-- Writes jobs of one batch that the caller has checked, in the order of their items, with tokens, events and outbox.
WITH new_job AS MATERIALIZED (
    SELECT job, (job).id AS job_id, description, clock_timestamp() AS now
    FROM jsonb_to_recordset(:entries::jsonb) AS e (job ai_jobs, description job_descriptions)
), accepted_job AS (
    INSERT INTO ai_jobs ({new_job_columns}, paid_by_tenant, status, event_seq, lifetime_seconds, created_at,
        submitted_at, deadline_at, counted_bytes)
    SELECT {new_job_columns}, :paid_by_tenant, :to_status, 1, :lifetime_seconds, now, now,
        now + make_interval(secs => :lifetime_seconds::integer),
        pg_column_size(payload) + coalesce(pg_column_size(sent), 0)
    FROM (SELECT (job).*, (description).sent, now FROM new_job) accepted
    RETURNING tenant_id, user_id, id AS job_id, kind, status, charge_cycle, cost, created_at, deadline_at, batch_item,
        key_id, provider
), counter AS MATERIALIZED (
    SELECT next_user_seq(:tenant_id, :user_id, jsonb_array_length(:entries)) AS first_seq
), event AS (
    INSERT INTO job_events (tenant_id, job_id, seq, user_id, user_seq, event, to_status, actor, data, request_id)
    SELECT tenant_id, job_id, 1, user_id, first_seq + row_number() OVER (ORDER BY batch_item) - 1, 'job.created',
        status, :actor, jsonb_build_object('type', kind, 'cost', cost), :request_id
    FROM accepted_job CROSS JOIN counter
), new_description AS (
    INSERT INTO job_descriptions (tenant_id, user_id, job_id, title, input_name, prompt, search_text, sent)
    SELECT tenant_id, user_id, job_id, (description).title, (description).input_name, (description).prompt,
        (description).search_text, (description).sent
    FROM accepted_job JOIN new_job USING (job_id)
    WHERE (description).title IS NOT NULL
), new_outbox AS (
    INSERT INTO outbox (tenant_id, job_id, charge_cycle, action)
    SELECT tenant_id, job_id, charge_cycle, 'dispatch' FROM accepted_job
), reservation AS MATERIALIZED (
    SELECT wallet_reserve(:tenant_id, :user_id, :paid_by_tenant, array_agg(job_id), array_agg(cost),
        CASE WHEN :has_budgets THEN budgets_take(:tenant_id, :user_id, key_id, provider, sum(cost)::bigint) END)
    FROM accepted_job
    GROUP BY key_id, provider
), delivery AS MATERIALIZED (
    SELECT deliveries_write(tenant_id, job_id) FROM accepted_job a
    WHERE EXISTS (SELECT FROM webhook_endpoints WHERE tenant_id = a.tenant_id)
)
SELECT job_id, created_at AS accepted_at, deadline_at FROM accepted_job
WHERE {runs_reservation} AND {runs_delivery}

-- name: job_of_video
-- The job that processed the video last, or is processing it. No row if the user has no such video.
SELECT job_id FROM videos WHERE tenant_id = :tenant_id AND id = :video_id AND user_id = :user_id

-- name: contents
-- The checksums of files, and of the originals of videos. An upload that is not confirmed has none that was checked.
SELECT id, sha256 FROM files
WHERE tenant_id = :tenant_id AND user_id = :user_id AND id = ANY (:ids::uuid[]) AND ready_at IS NOT NULL
UNION ALL
SELECT v.id, f.sha256 FROM videos v JOIN files f ON f.tenant_id = v.tenant_id AND f.id = v.original_file_id
WHERE v.tenant_id = :tenant_id AND v.user_id = :user_id AND v.id = ANY (:ids::uuid[]) AND f.ready_at IS NOT NULL

-- name: running_jobs
SELECT tenant_id, id AS job_id, charge_cycle FROM ai_jobs
WHERE tenant_id = :tenant_id AND user_id = :user_id AND completed_at IS NULL AND status = 'processing'
  AND counted_as(run_id, batch_id, actor, kind) = :counted_as
LIMIT :limit
