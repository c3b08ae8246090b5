-- database: pool
-- owns: ai_jobs, job_descriptions, job_events, job_traces, outbox, user_streams

-- part: new_job_columns
tenant_id, id, user_id, kind, cost, workflow_id, stage, provider, concurrency_identifier, priority, max_attempts,
lease_seconds, run_limit_seconds, payload, effect_id, video_id, input_file_ids, idempotency_key, request_hash, actor,
queue_name, workflow_run_id, run_id, step_id, parent_candidate_id, refund_on_cancel, medium

-- part: runs_reservation
-- PostgreSQL runs a CTE that only calls functions if the statement reads it.
(SELECT count(*) FROM reservation) >= 0

-- part: runs_filled_slot
(SELECT count(*) FROM filled_slot) >= 0

-- name: submit
-- Writes jobs, tokens, events and outbox in one commit. It locks the wallet of each user first. What it counts
-- afterwards (active_jobs_as is volatile) includes everything that was committed while it waited for the lock. A
-- statement has at most one job per user, because two of them would not count each other. `job` and `description` are
-- rows of their tables, so that the columns of a job are named in one place.
-- one statement because: several statements would hold the lock of the wallet for several round trips.
WITH new_job AS MATERIALIZED (
    SELECT job, (job).tenant_id, (job).user_id, (job).id AS job_id, description, event_actor, request_id, slot,
        counted_as, active_limit, submits_per_minute, user_storage_bytes, user_storage_files, tenant_storage_bytes,
        tenant_storage_files, user_database_bytes, wallet_lock((job).tenant_id, (job).user_id) AS balance
    FROM jsonb_to_recordset(:entries::jsonb) AS e (
        job ai_jobs, description job_descriptions, event_actor text, request_id text, slot jsonb, counted_as text,
        active_limit integer, submits_per_minute integer, user_storage_bytes bigint, user_storage_files bigint,
        tenant_storage_bytes bigint, tenant_storage_files bigint, user_database_bytes bigint)
    ORDER BY tenant_id, user_id
), checked_job AS MATERIALIZED (
    SELECT job, tenant_id, job_id, description, event_actor, request_id, slot, active_limit, balance,
        active_jobs_as(tenant_id, user_id, counted_as) AS active, clock_timestamp() AS now,
        CASE WHEN (job).input_file_ids = '{}' THEN true ELSE files_ready(tenant_id, user_id, (job).input_file_ids)
            = cardinality((job).input_file_ids) END AS has_files,
        CASE WHEN (job).video_id IS NULL THEN true
            ELSE video_is_free(tenant_id, user_id, (job).video_id) END AS has_video,
        storage_has_room_2(tenant_id, user_id, user_storage_bytes, user_storage_files, tenant_storage_bytes,
            tenant_storage_files, user_database_bytes) AS has_room,
        CASE WHEN (job).run_id IS NULL AND submits_per_minute IS NOT NULL
            THEN submit_wait(tenant_id, user_id, submits_per_minute) END AS wait_seconds,
        -- A place in the tree of a run, which belongs to a higher room in the same database.
        CASE WHEN slot IS NOT NULL THEN slot_refusal_3(tenant_id, user_id, (job).cost, slot) END AS slot_refusal
    FROM new_job
), accepted_job AS (
    INSERT INTO ai_jobs ({new_job_columns}, status, event_seq, lifetime_seconds, created_at, submitted_at, deadline_at,
        counted_bytes)
    SELECT {new_job_columns}, :to_status, 1, :lifetime_seconds, now, now,
        now + make_interval(secs => :lifetime_seconds::integer),
        pg_column_size(payload) + coalesce(pg_column_size(sent), 0) + coalesce(pg_column_size(slot), 0)
    FROM (
        SELECT (job).*, (description).sent, slot, now FROM checked_job
        WHERE balance >= (job).cost AND active < active_limit AND has_files AND has_video AND has_room
          AND wait_seconds IS NULL AND slot_refusal IS NULL
    ) accepted
    ON CONFLICT (tenant_id, user_id, idempotency_key) DO NOTHING
    RETURNING tenant_id, user_id, id AS job_id, kind, status, charge_cycle, cost, effect_id, video_id, created_at,
        deadline_at
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
    SELECT wallet_move(tenant_id, user_id, 'JOB_RESERVE', -cost, job_id, charge_cycle, NULL),
        CASE WHEN video_id IS NOT NULL THEN video_take_2(tenant_id, video_id, job_id, effect_id, status) END
    FROM accepted_job
), filled_slot AS MATERIALIZED (
    SELECT slot_take_2(tenant_id, job_id, cost, slot) FROM accepted_job JOIN checked_job USING (tenant_id, job_id)
    WHERE slot IS NOT NULL
)
SELECT tenant_id, job_id, created_at AS accepted_at, deadline_at, balance, active, has_files, has_video, has_room,
    wait_seconds, slot_refusal
FROM checked_job LEFT JOIN accepted_job USING (tenant_id, job_id)
WHERE {runs_reservation} AND {runs_filled_slot}

-- name: job_of_video
-- The job that processed the video last, or is processing it. No row if the user has no such video.
SELECT job_id FROM videos WHERE tenant_id = :tenant_id AND id = :video_id AND user_id = :user_id

-- name: deny
-- A denied transition is part of the job's history too.
WITH job AS (
    UPDATE ai_jobs SET event_seq = event_seq + 1
    WHERE tenant_id = :tenant_id AND id = :job_id
    RETURNING tenant_id, id, user_id, status, event_seq
)
INSERT INTO job_events (
    tenant_id, job_id, seq, user_id, user_seq, event, from_status, to_status, actor, reason, request_id)
SELECT tenant_id, id, event_seq, user_id, next_user_seq(tenant_id, user_id, 1), 'job.transition_denied', status,
    :to_status, :actor, :reason, :request_id
FROM job
RETURNING from_status, user_id

-- name: lock_job
SELECT user_id, status, run_id, deleted_at FROM ai_jobs WHERE tenant_id = :tenant_id AND id = :job_id FOR NO KEY UPDATE

-- name: delete_job
-- The row stays for the ledger and the history; the user's input and the result are removed. A video that shows the
-- job's outputs still needs the list of them in the result.
WITH job AS (
    UPDATE ai_jobs SET deleted_at = clock_timestamp(), event_seq = event_seq + 1, payload = '{}', counted_bytes = 0,
        error = NULL, error_fingerprint = NULL, result = CASE WHEN video_id IS NOT NULL THEN result END
    WHERE tenant_id = :tenant_id AND id = :job_id AND deleted_at IS NULL
    RETURNING tenant_id, id, user_id, status, event_seq
), description AS (
    DELETE FROM job_descriptions d USING job
    WHERE d.user_id = job.user_id AND d.job_id = job.id AND d.tenant_id = job.tenant_id
), trace AS (
    DELETE FROM job_traces t USING job WHERE t.tenant_id = job.tenant_id AND t.job_id = job.id
)
INSERT INTO job_events (tenant_id, job_id, seq, user_id, user_seq, event, from_status, to_status, actor, request_id)
SELECT tenant_id, id, event_seq, user_id, next_user_seq(tenant_id, user_id, 1), 'job.deleted', status, status, :actor,
    :request_id
FROM job
RETURNING job_id

-- name: state_of_job
-- Also returns how an earlier cycle ended: the n-th retry started from the end status of the n-th cycle.
SELECT j.status, j.charge_cycle, j.lease_seq, CASE WHEN j.charge_cycle > :charge_cycle::integer THEN (
        SELECT e.from_status FROM job_events e
        WHERE e.tenant_id = j.tenant_id AND e.job_id = j.id AND e.event = 'job.transition' AND e.to_status = 'pending'
        ORDER BY e.seq OFFSET greatest(0, :charge_cycle - 1) LIMIT 1) END AS earlier_end
FROM ai_jobs j
WHERE j.tenant_id = :tenant_id AND j.id = :job_id

-- name: follow_jobs
-- The unread events of several readers, the status of each job, and the latest progress if it runs: one statement for
-- all readers that were woken together. A reader gets one row per event, or one row without an event.
SELECT asked.place, job.status, job.event_seq, event.job_id, event.seq, event.event, event.from_status,
    event.to_status, event.actor, event.reason, event.data, event.at, progress.percent, progress.message,
    progress.elapsed_ms, progress.node_id, progress.updated_at, progress.preview_at
FROM unnest(:tenant_ids::uuid[], :job_ids::uuid[], :positions::integer[]) WITH ORDINALITY
    AS asked (tenant_id, asked_job, position, place)
LEFT JOIN LATERAL (
    SELECT status, event_seq, charge_cycle, lease_seq FROM ai_jobs
    WHERE tenant_id = asked.tenant_id AND id = asked.asked_job LIMIT 1
) job ON true
LEFT JOIN LATERAL (
    SELECT job_id, seq, event, from_status, to_status, actor, reason, data, at FROM job_events
    WHERE tenant_id = asked.tenant_id AND job_id = asked.asked_job AND seq > asked.position
    ORDER BY seq LIMIT :limit
) event ON true
LEFT JOIN LATERAL (
    SELECT percent, message, elapsed_ms, node_id, updated_at, preview_at FROM job_progress p
    WHERE p.tenant_id = asked.tenant_id AND p.job_id = asked.asked_job AND job.status = 'processing'
      AND p.charge_cycle = job.charge_cycle AND p.lease_seq = job.lease_seq
    LIMIT 1
) progress ON true
ORDER BY asked.place, event.seq

-- part: listed_columns
-- The fields of a ListedJob.
tenant_id, id, user_id, kind, status, charge_cycle, lease_seq, cost, workflow_id, stage, provider,
concurrency_identifier, priority, max_attempts, provider_job_id, idempotency_key, created_at, submitted_at,
deadline_at, started_at, completed_at, effect_id, video_id, actor, queue_name, workflow_run_id, run_id, step_id,
parent_candidate_id

-- part: other_columns
-- The fields of a JobRow that lists leave out.
event_seq, lease_seconds, run_limit_seconds, input_file_ids, result, error, deleted_at, request_hash

-- name: get_job
-- Without the payload, which may have megabytes. `payload_of_job` reads the payload.
SELECT {listed_columns}, {other_columns} FROM ai_jobs
WHERE tenant_id = :tenant_id AND id = :job_id

-- name: description_of_job
SELECT title, prompt, sent FROM job_descriptions
WHERE user_id = :user_id AND job_id = :job_id AND tenant_id = :tenant_id

-- name: payload_of_job
SELECT user_id, effect_id, actor, charge_cycle, lease_seq, payload FROM ai_jobs
WHERE tenant_id = :tenant_id AND id = :job_id

-- name: inputs_of_jobs
-- The input files of jobs, the primary input first.
SELECT j.id, j.input_file_ids FROM unnest(:job_ids::uuid[]) AS wanted (id) CROSS JOIN LATERAL (
    SELECT id, input_file_ids FROM ai_jobs WHERE tenant_id = :tenant_id AND id = wanted.id LIMIT 1
) j

-- name: outcomes_of_jobs
-- Results and errors in the order of the given ids, at least the first, until their total size reaches :most_bytes.
-- They are read one by one, so that values that do not fit are never read.
WITH RECURSIVE outcome AS (
    SELECT 0 AS place, NULL::jsonb AS result, NULL::jsonb AS error, NULL::uuid AS user_id, 0 AS bytes
    UNION ALL
    SELECT outcome.place + 1, job.result, job.error, job.user_id,
        outcome.bytes + coalesce(octet_length(job.result::text), 0) + coalesce(octet_length(job.error::text), 0)
    FROM outcome LEFT JOIN LATERAL (
        SELECT result, error, user_id FROM ai_jobs
        WHERE tenant_id = :tenant_id AND id = (:job_ids::uuid[])[outcome.place + 1] LIMIT 1
    ) job ON true
    WHERE outcome.place < cardinality(:job_ids) AND outcome.bytes < :most_bytes::integer
)
SELECT outcome.result, outcome.error, (
        SELECT d.title FROM job_descriptions d
        WHERE d.user_id = outcome.user_id AND d.job_id = (:job_ids::uuid[])[outcome.place]
          AND d.tenant_id = :tenant_id
    ) AS title
FROM outcome
WHERE outcome.place > 0
ORDER BY outcome.place

-- name: get_actor_and_action
-- The actor and the action of a task, without the rest of its payload.
SELECT actor, payload ->> 'action_type' AS action FROM ai_jobs WHERE tenant_id = :tenant_id AND id = :job_id

-- name: find_by_idempotency_key
-- Equality is written as a comparison of rows, which only the index of the keys supports: a plan made while the table
-- was empty used the primary key and read every job of the tenant.
SELECT {listed_columns}, {other_columns} FROM ai_jobs
WHERE (idempotency_key, tenant_id, user_id) >= (:idempotency_key, :tenant_id, :user_id)
  AND (idempotency_key, tenant_id, user_id) <= (:idempotency_key, :tenant_id, :user_id)

-- name: list_jobs
-- Rows are read by the user's index: see library/statements.sql, list_jobs. Payloads are not listed; `outcomes_of_jobs`
-- reads results and errors, up to the maximum size of a page.
SELECT {listed_columns} FROM (
    SELECT {listed_columns}
    FROM ai_jobs
    WHERE user_id = :user_id AND id < coalesce(:before, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
      AND (:status::text IS NULL OR status = :status) AND deleted_at IS NULL
    ORDER BY id DESC LIMIT :limit
) job
WHERE job.tenant_id = :tenant_id
ORDER BY job.id DESC

-- name: list_jobs_of_run
-- A run belongs to one user: its owner is checked on what was read.
SELECT {listed_columns} FROM (
    SELECT {listed_columns}
    FROM ai_jobs
    WHERE run_id = :run_id AND id < coalesce(:before, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
      AND (:status::text IS NULL OR status = :status) AND deleted_at IS NULL
    ORDER BY id DESC LIMIT :limit
) job
WHERE job.tenant_id = :tenant_id AND job.user_id = :user_id
ORDER BY job.id DESC

-- name: list_tasks
-- Rows are read by the user's index: see library/statements.sql, list_jobs.
SELECT {listed_columns} FROM (
    SELECT {listed_columns}
    FROM ai_jobs
    WHERE user_id = :user_id AND actor IS NOT NULL
      AND id < coalesce(:before, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
      AND (:status::text IS NULL OR status = :status) AND (:actor::text IS NULL OR actor = :actor)
      AND (:queue_name::text IS NULL OR queue_name = :queue_name) AND deleted_at IS NULL
    ORDER BY id DESC LIMIT :limit
) task
WHERE task.tenant_id = :tenant_id
ORDER BY task.id DESC

-- name: list_tasks_of_run
-- By a comparison of rows, which only the index of runs supports. With workflow_run_id = … the planner may read the
-- user's tasks from the newest on, which is slow for an old run.
SELECT {listed_columns} FROM ai_jobs
WHERE (workflow_run_id, user_id, id) >= (:workflow_run_id, :user_id, '00000000-0000-0000-0000-000000000000'::uuid)
  AND (workflow_run_id, user_id, id)
    < (:workflow_run_id, :user_id, coalesce(:before, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid))
  AND workflow_run_id IS NOT NULL AND tenant_id = :tenant_id AND actor IS NOT NULL
  AND (:status::text IS NULL OR status = :status) AND (:actor::text IS NULL OR actor = :actor)
  AND (:queue_name::text IS NULL OR queue_name = :queue_name) AND deleted_at IS NULL
ORDER BY workflow_run_id DESC, user_id DESC, id DESC LIMIT :limit

-- name: window_of_tenant
-- The newest :most jobs of a tenant before :before: where a page of list_jobs_of_tenant ends, whatever its filters are.
WITH newest_job AS MATERIALIZED (
    SELECT id FROM ai_jobs
    WHERE tenant_id = :tenant_id AND id < coalesce(:before, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
    ORDER BY id DESC LIMIT :most::bigint
)
SELECT (SELECT id FROM newest_job ORDER BY id LIMIT 1) AS smallest_id, (SELECT count(*) FROM newest_job) AS rows

-- name: list_jobs_of_tenant
-- Newest first, in the order of the primary key, down to :from_id. A filter may match few rows, so a page may be
-- shorter than :limit, or empty, and still have a next page.
SELECT {listed_columns} FROM ai_jobs
WHERE tenant_id = :tenant_id AND id >= :from_id
  AND id < coalesce(:before, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
  AND (:status::text IS NULL OR status = :status) AND (:user_id::uuid IS NULL OR user_id = :user_id)
ORDER BY id DESC LIMIT :limit

-- name: lock_wallet
SELECT wallet_lock(:tenant_id, :user_id)

-- name: inputs_are_ready
SELECT files_ready(:tenant_id, :user_id, :file_ids::uuid[]) = cardinality(:file_ids::uuid[])

-- name: count_active
SELECT active_jobs_as(:tenant_id, :user_id, :counted_as)

-- name: running_jobs
SELECT tenant_id, id AS job_id, charge_cycle FROM ai_jobs
WHERE tenant_id = :tenant_id AND user_id = :user_id AND completed_at IS NULL AND status = 'processing'
  AND counted_as(run_id, actor, kind) = :counted_as
LIMIT :limit

-- part: entry_columns
-- The fields of a QueueEntry that a job `j` has. The charge cycle follows.
j.tenant_id, j.user_id, j.id AS job_id, j.workflow_id, j.stage, j.provider, j.concurrency_identifier, j.priority,
j.kind, j.max_attempts, j.lease_seconds, j.run_limit_seconds, j.deadline_at

-- name: read_outbox
-- Oldest first. A row that another process is relaying at this moment may be relayed twice, which changes nothing.
SELECT o.id AS outbox_id, o.action, {entry_columns}, o.charge_cycle, j.status, j.charge_cycle AS job_cycle,
    CASE WHEN o.action = 'close' AND j.charge_cycle > o.charge_cycle THEN (
        SELECT e.from_status FROM job_events e
        WHERE e.tenant_id = j.tenant_id AND e.job_id = j.id AND e.event = 'job.transition' AND e.to_status = 'pending'
        ORDER BY e.seq OFFSET o.charge_cycle - 1 LIMIT 1) END AS earlier_end
FROM outbox o JOIN ai_jobs j ON j.tenant_id = o.tenant_id AND j.id = o.job_id
WHERE o.created_at <= coalesce(:before, clock_timestamp())
ORDER BY o.id LIMIT :limit

-- name: job_sides
-- The pool's data about jobs. `awaits_relay`: the relay has not yet sent the job to central.
SELECT {entry_columns}, j.charge_cycle, j.status, j.lease_seq,
    EXISTS (SELECT FROM outbox o
    WHERE o.tenant_id = j.tenant_id AND o.job_id = j.id AND o.charge_cycle = j.charge_cycle
        AND o.action = 'dispatch') AS awaits_relay,
    coalesce(j.completed_at, j.submitted_at)
        <= clock_timestamp() - make_interval(secs => :settle_seconds::float8) AS has_settled
FROM unnest(:tenant_ids::uuid[], :job_ids::uuid[]) AS wanted (tenant_id, job_id) CROSS JOIN LATERAL (
    SELECT {listed_columns}, lease_seconds, run_limit_seconds
    FROM ai_jobs
    WHERE tenant_id = wanted.tenant_id AND id = wanted.job_id LIMIT 1
) j

-- name: delete_outbox
DELETE FROM outbox WHERE id = ANY (:ids::bigint[])

-- name: delete_outbox_of_job
DELETE FROM outbox
WHERE tenant_id = :tenant_id AND job_id = :job_id AND charge_cycle = :charge_cycle AND action = :action

-- name: find_overdue
-- The time is a sub-select, because an index condition cannot use a volatile function: every active job would be read.
SELECT tenant_id, id AS job_id, charge_cycle, status FROM ai_jobs
WHERE completed_at IS NULL AND deadline_at <= (SELECT coalesce(:now, clock_timestamp()))
ORDER BY deadline_at LIMIT :limit

-- name: events_of_job
SELECT job_id, seq, user_seq, event, from_status, to_status, actor, reason, data, at FROM job_events
WHERE tenant_id = :tenant_id AND job_id = :job_id AND seq > :after
ORDER BY seq LIMIT :limit

-- name: follow_user
-- The unread events of a reader, with the wallet after them; at least one row. The held tokens change only with an
-- event, so they are read only if there is an event or the reader has just connected.
WITH event AS MATERIALIZED (
    SELECT job_id, seq, user_seq, event, from_status, to_status, actor, reason, data, at FROM job_events
    WHERE tenant_id = :tenant_id AND user_id = :user_id AND user_seq > :after
    ORDER BY user_seq LIMIT :limit
)
SELECT wallet.balance, wallet.held, event.job_id, event.seq, event.user_seq, event.event, event.from_status,
    event.to_status, event.actor, event.reason, event.data, event.at
FROM (
    SELECT
        coalesce((SELECT balance FROM token_wallets WHERE tenant_id = :tenant_id AND user_id = :user_id), 0) AS balance,
        CASE WHEN :is_first OR EXISTS (SELECT FROM event) THEN wallet_held(:tenant_id, :user_id)::bigint END AS held
) wallet LEFT JOIN event ON true
ORDER BY event.user_seq

-- name: last_user_seq
SELECT coalesce((SELECT last_seq FROM user_streams WHERE tenant_id = :tenant_id AND user_id = :user_id), 0)
