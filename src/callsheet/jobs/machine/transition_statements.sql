-- database: pool
--
-- The changes of status of existing jobs, one statement per verb, each for any number of jobs. The statuses come from
-- the state machine (jobs/machine/states.py). A job changes only in the charge cycle that the caller names, and only if
-- its lease_seq is in the range that the caller names.
--
-- Every statement takes its locks in the same order: users, then wallets of tenants and budgets, then jobs, then stream
-- counters, each in key order (0012_budgets.sql). Therefore a LATERAL sub-select locks the jobs one after the other, in
-- the order of `wanted_transition`, before they are updated. `numbered_job` calls next_user_seq, which locks a stream
-- counter, in the order of its ORDER BY: PostgreSQL calls a volatile function after the sort.
--
-- PostgreSQL runs a CTE that only calls functions when the statement reads it for the first time, and never if the
-- statement does not read it. `{runs_media}` is always true and reads `media` to its end.

-- part: runs_video
(SELECT count(*) FROM video) >= 0

-- part: runs_media
(SELECT count(*) FROM media) >= 0

-- part: runs_product
(SELECT count(*) FROM product) >= 0

-- part: runs_charge
(SELECT count(*) FROM charge) >= 0

-- part: runs_refund
(SELECT count(*) FROM refund) >= 0

-- part: runs_delivery
(SELECT count(*) FROM delivery) >= 0

-- part: runs_batch
(SELECT count(*) FROM batch) >= 0

-- part: after_locked_wallet
(SELECT count(*) FROM locked_wallet) >= 0

-- part: after_locked_tenant
(SELECT count(*) FROM locked_tenant) >= 0

-- part: with_locked_job
CROSS JOIN LATERAL (
    SELECT status FROM ai_jobs
    WHERE tenant_id = r.tenant_id AND id = r.job_id AND charge_cycle = r.charge_cycle
      AND lease_seq BETWEEN r.min_lease_seq AND r.max_lease_seq AND status = ANY (:from_statuses::text[])
    FOR NO KEY UPDATE
) job

-- part: event_and_trace
event AS (
    INSERT INTO job_events (
        tenant_id, job_id, seq, user_id, user_seq, event, from_status, to_status, actor, reason, reported,
        request_id)
    SELECT tenant_id, job_id, event_seq, user_id, user_seq, 'job.transition', from_status, status, actor, reason,
        reported, request_id
    FROM numbered_job
), trace AS (
    INSERT INTO job_traces (tenant_id, job_id, seq, trace)
    SELECT tenant_id, job_id, event_seq, trace FROM numbered_job WHERE trace IS NOT NULL
)

-- part: video
video AS MATERIALIZED (
    SELECT media_follow(jsonb_agg(jsonb_build_object('tenant_id', tenant_id, 'user_id', user_id, 'job_id', job_id,
        'video_id', video_id, 'status', status)))
    FROM numbered_job
    WHERE video_id IS NOT NULL
    HAVING count(*) > 0
)

-- part: delivery
-- A tenant without endpoints costs one look at an index.
delivery AS MATERIALIZED (
    SELECT deliveries_write(tenant_id, job_id) FROM numbered_job n
    WHERE EXISTS (SELECT FROM webhook_endpoints WHERE tenant_id = n.tenant_id)
)

-- part: batch
-- The batches of the jobs count them. Their rows are locked after the stream counters of their users.
batch AS MATERIALIZED (
    SELECT batches_follow(array_agg(tenant_id), array_agg(batch_id), array_agg(from_status), array_agg(status))
    FROM numbered_job
    WHERE batch_id IS NOT NULL
    HAVING count(*) > 0
)

-- part: obsolete_outbox
obsolete_outbox AS (
    DELETE FROM outbox o USING numbered_job n
    WHERE o.tenant_id = n.tenant_id AND o.job_id = n.job_id AND o.charge_cycle = n.charge_cycle
      AND o.action = 'dispatch'
)

-- name: queue_jobs
-- The dispatch of each job is in the queue: for the first time, or again after its lease ended.
WITH wanted_transition AS MATERIALIZED (
    SELECT * FROM unnest(:tenant_ids::uuid[], :job_ids::uuid[], :charge_cycles::integer[], :min_lease_seqs::bigint[],
        :max_lease_seqs::bigint[], :actors::text[], :reasons::text[], :reported_reasons::text[], :traces::jsonb[],
        :request_ids::text[])
        AS r (tenant_id, job_id, charge_cycle, min_lease_seq, max_lease_seq, actor, reason, reported, trace,
            request_id)
    ORDER BY tenant_id, job_id
), locked_job AS MATERIALIZED (
    SELECT r.tenant_id, r.job_id, r.actor, r.reason, r.reported, r.trace, r.request_id, job.status AS from_status
    FROM wanted_transition r {with_locked_job}
), queued_job AS (
    UPDATE ai_jobs j SET status = :to_status, event_seq = j.event_seq + 1
    FROM locked_job l
    WHERE j.tenant_id = l.tenant_id AND j.id = l.job_id
    RETURNING j.tenant_id, j.id AS job_id, j.charge_cycle, j.user_id, l.from_status, j.status, j.cost, j.effect_id,
        j.video_id, j.event_seq, l.actor, l.reason, l.reported, l.trace, l.request_id
), numbered_job AS MATERIALIZED (
    SELECT tenant_id, job_id, charge_cycle, user_id, from_status, status, cost, effect_id, video_id, event_seq, actor,
        reason, reported, trace, request_id, next_user_seq(tenant_id, user_id, 1) AS user_seq
    FROM queued_job
    ORDER BY tenant_id, user_id, job_id
), {event_and_trace}, {video}, {obsolete_outbox}
SELECT tenant_id, job_id, charge_cycle, user_id, from_status, status, cost, effect_id FROM numbered_job
WHERE {runs_video}

-- name: start_jobs
-- A worker holds the lease of each job. If the job is not yet 'queued', because the relay crashed or is late, each
-- missing transition gets its own event. The dispatch exists, so the row of the outbox is deleted.
WITH wanted_transition AS MATERIALIZED (
    SELECT * FROM unnest(:tenant_ids::uuid[], :job_ids::uuid[], :charge_cycles::integer[], :lease_seqs::bigint[],
        :actors::text[], :request_ids::text[]) AS r (tenant_id, job_id, charge_cycle, lease_seq, actor, request_id)
    ORDER BY tenant_id, job_id
), step AS MATERIALIZED (
    SELECT * FROM unnest(:origins::text[], :numbers::integer[], :from_statuses::text[], :to_statuses::text[])
        AS s (origin, number, from_status, to_status)
), locked_job AS MATERIALIZED (
    SELECT r.tenant_id, r.job_id, r.lease_seq, r.actor, r.request_id, job.status AS from_status,
        (SELECT max(number) FROM step WHERE origin = job.status) AS steps
    FROM wanted_transition r CROSS JOIN LATERAL (
        SELECT status FROM ai_jobs
        WHERE tenant_id = r.tenant_id AND id = r.job_id AND charge_cycle = r.charge_cycle
          AND lease_seq < r.lease_seq AND status = ANY (:origins)
        FOR NO KEY UPDATE
    ) job
), started_job AS (
    UPDATE ai_jobs j SET status = :to_status, event_seq = j.event_seq + l.steps, lease_seq = l.lease_seq,
        started_at = clock_timestamp()
    FROM locked_job l
    WHERE j.tenant_id = l.tenant_id AND j.id = l.job_id
    RETURNING j.tenant_id, j.id AS job_id, j.charge_cycle, j.user_id, l.from_status, j.status, j.cost, j.effect_id,
        j.video_id, j.payload, j.actor AS task_actor, j.event_seq - l.steps AS seq_before, l.steps, l.actor,
        l.request_id
), numbered_job AS MATERIALIZED (
    SELECT tenant_id, job_id, charge_cycle, user_id, from_status, status, cost, effect_id, video_id, payload,
        task_actor, seq_before, actor, request_id, next_user_seq(tenant_id, user_id, steps) - 1 AS user_seq_before
    FROM started_job
    ORDER BY tenant_id, user_id, job_id
), event AS (
    INSERT INTO job_events (
        tenant_id, job_id, seq, user_id, user_seq, event, from_status, to_status, actor, request_id)
    SELECT n.tenant_id, n.job_id, n.seq_before + step.number, n.user_id, n.user_seq_before + step.number,
        'job.transition', step.from_status, step.to_status, n.actor, n.request_id
    FROM numbered_job n JOIN step ON step.origin = n.from_status
), {video}, {obsolete_outbox}, {delivery}
SELECT tenant_id, job_id, charge_cycle, user_id, from_status, status, cost, effect_id, payload, task_actor
FROM numbered_job
WHERE {runs_video} AND {runs_delivery}

-- name: complete_jobs
-- The outputs of each job are stored. Its tokens are consumed; its outputs become files, the result of a scrape becomes
-- a product.
-- one statement because: several statements would hold the locks of wallets and jobs for several round trips.
WITH wanted_transition AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(:requests::jsonb) AS r (
        tenant_id uuid, job_id uuid, charge_cycle integer, min_lease_seq bigint, max_lease_seq bigint, actor text,
        reason text, reported text, result jsonb, provider_job_id text, outputs jsonb, product jsonb, trace jsonb,
        request_id text)
    ORDER BY tenant_id, job_id
), locked_job AS MATERIALIZED (
    SELECT r.tenant_id, r.job_id, r.actor, r.reason, r.reported, r.result, r.provider_job_id, r.outputs, r.product,
        r.trace, r.request_id, job.status AS from_status
    FROM wanted_transition r {with_locked_job}
), completed_job AS (
    UPDATE ai_jobs j SET status = :to_status, event_seq = j.event_seq + 1, completed_at = clock_timestamp(),
        result = l.result, provider_job_id = coalesce(l.provider_job_id, j.provider_job_id),
        output_file_id = (l.outputs -> 0 ->> 'file_id')::uuid, outcome = :to_status, outcome_cycle = j.charge_cycle,
        medium = CASE WHEN l.outputs IS NULL THEN j.medium ELSE medium_of(l.outputs -> 0 ->> 'mime_type') END
    FROM locked_job l
    WHERE j.tenant_id = l.tenant_id AND j.id = l.job_id
    RETURNING j.tenant_id, j.id AS job_id, j.charge_cycle, j.user_id, l.from_status, j.status, j.cost, j.effect_id,
        j.video_id, j.batch_id, j.output_file_id, j.lease_seq, j.event_seq, j.paid_by_tenant, l.actor, l.reason,
        l.reported, l.outputs, l.product, l.trace, l.request_id
), numbered_job AS MATERIALIZED (
    SELECT tenant_id, job_id, charge_cycle, user_id, from_status, status, cost, effect_id, video_id, batch_id,
        output_file_id, event_seq, paid_by_tenant, actor, reason, reported, outputs, product, trace, request_id,
        next_user_seq(tenant_id, user_id, 1) AS user_seq,
        -- Objects may be left in storage: uploads of earlier leases, uploads that the worker did not report or made
        -- after its outputs were accepted, and outputs that the control plane fetched from a provider more than once.
        lease_seq > 1 OR outputs IS NOT NULL OR actor LIKE 'provider:%' AS is_swept
    FROM completed_job
    ORDER BY tenant_id, user_id, job_id
), {event_and_trace}, media AS MATERIALIZED (
    SELECT media_follow(jsonb_agg(jsonb_build_object('tenant_id', tenant_id, 'user_id', user_id, 'job_id', job_id,
        'video_id', video_id, 'status', status, 'file_id', output_file_id, 'outputs', coalesce(outputs, '[]'),
        'is_swept', is_swept)))
    FROM numbered_job
    WHERE video_id IS NOT NULL OR is_swept
    HAVING count(*) > 0
), product AS MATERIALIZED (
    SELECT product_keep(tenant_id, user_id, job_id, product) FROM numbered_job WHERE product IS NOT NULL
), charge AS MATERIALIZED (
    SELECT wallet_consume(array_agg(tenant_id), array_agg(user_id), array_agg(paid_by_tenant), array_agg(job_id),
        array_agg(charge_cycle))
    FROM numbered_job
    HAVING count(*) > 0
), {batch}, {delivery}
SELECT tenant_id, job_id, charge_cycle, user_id, from_status, status, cost, effect_id FROM numbered_job
WHERE {runs_media} AND {runs_product} AND {runs_charge} AND {runs_batch} AND {runs_delivery}

-- name: end_jobs
-- Each job ends without a result: it failed, was canceled or expired. Its tokens are refunded.
-- one statement because: several statements would hold the locks of wallets and jobs for several round trips.
WITH wanted_transition AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(:requests::jsonb) AS r (
        tenant_id uuid, job_id uuid, charge_cycle integer, min_lease_seq bigint, max_lease_seq bigint, actor text,
        reason text, reported text, provider_job_id text, error jsonb, error_fingerprint text, trace jsonb,
        request_id text)
    ORDER BY tenant_id, job_id
), locked_wallet AS MATERIALIZED (
    SELECT tenant_id, paid_by_tenant, wallet_lock(tenant_id, user_id) FROM (
        SELECT r.tenant_id, job.user_id, bool_or(job.paid_by_tenant) AS paid_by_tenant
        FROM wanted_transition r CROSS JOIN LATERAL (
            SELECT user_id, paid_by_tenant FROM ai_jobs WHERE tenant_id = r.tenant_id AND id = r.job_id LIMIT 1
        ) job
        GROUP BY r.tenant_id, job.user_id
        ORDER BY tenant_id, user_id
    ) owner
), locked_tenant AS MATERIALIZED (
    -- A tenant without budgets costs one look at its row. The wallet that a job took from is that of its charge cycle,
    -- whatever the setting of the tenant is now.
    SELECT CASE WHEN paid_by_tenant THEN wallet_lock(tenant_id, tenant_id) END,
        CASE WHEN (SELECT has_budgets FROM pool_tenants WHERE tenant_id = tenant.tenant_id) THEN budgets_lock(tenant_id)
        END
    FROM (
        SELECT tenant_id, bool_or(paid_by_tenant) AS paid_by_tenant
        FROM locked_wallet
        WHERE {after_locked_wallet}
        GROUP BY tenant_id
        ORDER BY tenant_id
    ) tenant
), locked_job AS MATERIALIZED (
    SELECT r.tenant_id, r.job_id, r.actor, r.reason, r.reported, r.provider_job_id, r.error, r.error_fingerprint,
        r.trace, r.request_id, job.status AS from_status
    FROM wanted_transition r {with_locked_job}
    WHERE {after_locked_tenant}
), ended_job AS (
    UPDATE ai_jobs j SET status = :to_status, event_seq = j.event_seq + 1, completed_at = clock_timestamp(),
        error = coalesce(l.error, j.error), error_fingerprint = coalesce(l.error_fingerprint, j.error_fingerprint),
        provider_job_id = coalesce(l.provider_job_id, j.provider_job_id), outcome = :to_status,
        outcome_cycle = j.charge_cycle
    FROM locked_job l
    WHERE j.tenant_id = l.tenant_id AND j.id = l.job_id
    RETURNING j.tenant_id, j.id AS job_id, j.charge_cycle, j.user_id, l.from_status, j.status, j.cost, j.effect_id,
        j.video_id, j.batch_id, j.error, j.lease_seq, j.started_at, j.run_limit_seconds, j.refund_on_cancel,
        j.actor IS NOT NULL AS is_task, j.event_seq, l.actor, l.reason, l.reported, l.trace, l.request_id
), numbered_job AS MATERIALIZED (
    -- is_swept: uploads of its leases may be left in storage.
    SELECT tenant_id, job_id, charge_cycle, user_id, from_status, status, cost, effect_id, video_id, batch_id, error,
        lease_seq, started_at, run_limit_seconds, refund_on_cancel, is_task, event_seq, actor, reason, reported, trace,
        request_id, next_user_seq(tenant_id, user_id, 1) AS user_seq,
        lease_seq > 0 OR actor LIKE 'provider:%' AS is_swept
    FROM ended_job
    ORDER BY tenant_id, user_id, job_id
), {event_and_trace}, media AS MATERIALIZED (
    SELECT media_follow(jsonb_agg(jsonb_build_object('tenant_id', tenant_id, 'user_id', user_id, 'job_id', job_id,
        'video_id', video_id, 'status', status, 'message', error ->> 'message', 'is_swept', is_swept)))
    FROM numbered_job
    WHERE video_id IS NOT NULL OR is_swept
    HAVING count(*) > 0
), {obsolete_outbox}, new_outbox AS (
    INSERT INTO outbox (tenant_id, job_id, charge_cycle, action)
    SELECT tenant_id, job_id, charge_cycle, 'close' FROM numbered_job
    WHERE :close_dispatch
    ON CONFLICT DO NOTHING
), refund AS MATERIALIZED (
    -- Only a canceled running job may keep tokens as spent: a failed or expired job delivered nothing.
    SELECT wallet_refund(tenant_id, user_id, job_id, charge_cycle,
        CASE WHEN status = 'canceled' AND from_status = 'processing' AND refund_on_cancel = 'unspent'
            THEN job_spent(tenant_id, job_id, charge_cycle, lease_seq, started_at, run_limit_seconds, is_task)
            ELSE 0 END)
    FROM numbered_job
), {batch}, {delivery}
SELECT tenant_id, job_id, charge_cycle, user_id, from_status, status, cost, effect_id FROM numbered_job
WHERE {runs_media} AND {runs_refund} AND {runs_batch} AND {runs_delivery}

-- name: retry_job
-- The next charge cycle of one job that failed or expired: everything that its last cycle left is reset, and its tokens
-- are reserved again, from the wallet that pays now. The caller holds the locks of the wallet and of the budgets.
WITH locked_job AS MATERIALIZED (
    SELECT tenant_id, id AS job_id, status AS from_status FROM ai_jobs
    WHERE tenant_id = :tenant_id AND id = :job_id AND charge_cycle = :charge_cycle
      AND status = ANY (:from_statuses::text[])
    FOR NO KEY UPDATE
), retried_job AS (
    UPDATE ai_jobs j SET status = :to_status, event_seq = j.event_seq + 1, charge_cycle = j.charge_cycle + 1,
        lease_seq = 0, submitted_at = clock_timestamp(),
        deadline_at = clock_timestamp() + make_interval(secs => j.lifetime_seconds), started_at = NULL,
        completed_at = NULL, error = NULL, error_fingerprint = NULL, result = NULL, provider_job_id = NULL,
        output_file_id = NULL, outcome = NULL, outcome_cycle = NULL, paid_by_tenant = :paid_by_tenant
    FROM locked_job l
    WHERE j.tenant_id = l.tenant_id AND j.id = l.job_id
    RETURNING j.tenant_id, j.id AS job_id, j.charge_cycle, j.user_id, l.from_status, j.status, j.cost, j.effect_id,
        j.video_id, j.batch_id, j.event_seq, j.kind, j.key_id, j.provider
), event AS (
    INSERT INTO job_events (
        tenant_id, job_id, seq, user_id, user_seq, event, from_status, to_status, actor, reason, request_id)
    SELECT tenant_id, job_id, event_seq, user_id, next_user_seq(tenant_id, user_id, 1), 'job.transition', from_status,
        status, :actor, :reason, :request_id
    FROM retried_job
), new_outbox AS (
    INSERT INTO outbox (tenant_id, job_id, charge_cycle, action)
    SELECT tenant_id, job_id, charge_cycle, 'dispatch' FROM retried_job
), video AS MATERIALIZED (
    SELECT media_follow(jsonb_agg(jsonb_build_object('tenant_id', tenant_id, 'user_id', user_id, 'job_id', job_id,
        'video_id', video_id, 'status', status)))
    FROM retried_job
    WHERE video_id IS NOT NULL
    HAVING count(*) > 0
), charge AS MATERIALIZED (
    -- A replay of a candidate also counts in the budget of its run, again.
    SELECT wallet_move(tenant_id, user_id, 'JOB_RESERVE', -cost, job_id, charge_cycle, NULL,
            NULL, CASE WHEN :has_budgets THEN budgets_take(tenant_id, user_id, key_id, provider, cost) END,
            :paid_by_tenant),
        CASE WHEN kind = 'replay' THEN replay_retry(tenant_id, job_id, charge_cycle, cost) END
    FROM retried_job
), batch AS MATERIALIZED (
    SELECT batches_follow(ARRAY[tenant_id], ARRAY[batch_id], ARRAY[from_status], ARRAY[status]) FROM retried_job
    WHERE batch_id IS NOT NULL
), delivery AS MATERIALIZED (
    SELECT deliveries_write(tenant_id, job_id) FROM retried_job r
    WHERE EXISTS (SELECT FROM webhook_endpoints WHERE tenant_id = r.tenant_id)
)
SELECT tenant_id, job_id, charge_cycle, user_id, from_status, status, cost, effect_id FROM retried_job
WHERE {runs_video} AND {runs_charge} AND {runs_batch} AND {runs_delivery}
