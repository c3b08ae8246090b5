-- database: pool
-- owns: ai_jobs, job_descriptions, job_events, job_traces, outbox, user_streams

-- name: set_priority
-- The job gets the priority of its dispatch, so that a retry keeps the priority that an admin has set. The statement
-- compares the status: with completed_at IS NULL, a plan made while the table was empty used an index of active jobs
-- and read all of the tenant's.
UPDATE ai_jobs SET priority = :priority
WHERE tenant_id = :tenant_id AND id = :job_id AND charge_cycle = :charge_cycle
  AND status IN ('pending', 'queued', 'processing')

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

-- name: state_of_job
-- Also returns how an earlier cycle ended: the n-th retry started from the end status of the n-th cycle.
SELECT j.status, j.charge_cycle, j.lease_seq, CASE WHEN j.charge_cycle > :charge_cycle::integer THEN (
        SELECT e.from_status FROM job_events e
        WHERE e.tenant_id = j.tenant_id AND e.job_id = j.id AND e.event = 'job.transition' AND e.to_status = 'pending'
        ORDER BY e.seq OFFSET greatest(0, :charge_cycle - 1) LIMIT 1) END AS earlier_end
FROM ai_jobs j
WHERE j.tenant_id = :tenant_id AND j.id = :job_id

-- part: job_columns
-- The fields of a JobRow.
tenant_id, id, user_id, kind, status, charge_cycle, lease_seq, cost, workflow_id, stage, provider,
concurrency_identifier, priority, max_attempts, provider_job_id, idempotency_key, created_at, submitted_at,
deadline_at, started_at, completed_at, effect_id, video_id, actor, queue_name, workflow_run_id, run_id, step_id,
parent_candidate_id, batch_id, batch_item, client_reference, metadata, webhook_url, lease_seconds, run_limit_seconds,
event_seq

-- part: other_columns
-- The fields of a WholeJob that lists leave out.
input_file_ids, result, error, deleted_at, request_hash, request_fields

-- name: get_job
-- Without the payload, which may have megabytes. `payload_of_job` reads the payload.
SELECT {job_columns}, {other_columns} FROM ai_jobs
WHERE tenant_id = :tenant_id AND id = :job_id

-- name: find_by_idempotency_key
-- The lock makes this a write, whose commit waits for synchronous standbys. The first request may have stopped waiting
-- for them: PostgreSQL then keeps the job, although a failover could lose it.
SELECT {job_columns}, {other_columns} FROM ai_jobs
WHERE {has_key}
FOR KEY SHARE

-- part: has_key
-- Equality is written as a comparison of rows, which only the index of the keys supports: a plan made while the table
-- was empty used the primary key and read every job of the tenant. Only jobs with a key are in that index.
(idempotency_key, tenant_id, user_id) >= (:idempotency_key, :tenant_id, :user_id)
  AND (idempotency_key, tenant_id, user_id) <= (:idempotency_key, :tenant_id, :user_id) AND idempotency_key IS NOT NULL

-- part: matches_filter
-- The filters of a JobListFilter. A filter that is NULL matches every job. They are one CASE, for which a plan that is
-- kept expects half of the rows. For `… IS NULL OR …` it expects hardly any, and would sort all jobs of a user.
CASE WHEN status = coalesce(:status::text, status) AND run_id IS NOT DISTINCT FROM coalesce(:run_id::uuid, run_id)
    AND batch_id IS NOT DISTINCT FROM coalesce(:batch_id::uuid, batch_id)
    AND client_reference IS NOT DISTINCT FROM coalesce(:client_reference::text, client_reference)
    AND coalesce(metadata, '{}') @> coalesce(:metadata::jsonb, '{}')
  THEN true ELSE false END AND deleted_at IS NULL

-- name: list_jobs
-- Rows are read by the user's index: see library/statements.sql, list_jobs. Payloads are not listed; `outcomes_of_jobs`
-- reads results and errors, up to the maximum size of a page.
SELECT {job_columns} FROM (
    SELECT {job_columns}
    FROM ai_jobs
    WHERE user_id = :user_id AND id < coalesce(:before, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
      AND {matches_filter}
    ORDER BY id DESC LIMIT :limit
) job
WHERE job.tenant_id = :tenant_id
ORDER BY job.id DESC

-- name: list_jobs_of_run
-- A run belongs to one user: its owner is checked on what was read.
SELECT {job_columns} FROM (
    SELECT {job_columns}
    FROM ai_jobs
    WHERE run_id = :run_id AND id < coalesce(:before, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
      AND {matches_filter}
    ORDER BY id DESC LIMIT :limit
) job
WHERE job.tenant_id = :tenant_id AND job.user_id = :user_id
ORDER BY job.id DESC

-- name: list_jobs_of_batch
-- A batch belongs to one user, and has at most a thousand jobs.
SELECT {job_columns} FROM (
    SELECT {job_columns}
    FROM ai_jobs
    WHERE batch_id = :batch_id AND id < coalesce(:before, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
      AND {matches_filter}
    ORDER BY id DESC LIMIT :limit
) job
WHERE job.tenant_id = :tenant_id AND job.user_id = :user_id
ORDER BY job.id DESC

-- name: jobs_of_batch
-- In the order of the items.
SELECT {job_columns} FROM ai_jobs
WHERE batch_id = :batch_id AND tenant_id = :tenant_id AND user_id = :user_id AND status = ANY (:statuses::text[])
  AND deleted_at IS NULL
ORDER BY batch_item

-- name: list_jobs_of_reference
-- A statement of its own: with an optional filter, a plan that is kept would read and sort all jobs of the user.
SELECT {job_columns} FROM (
    SELECT {job_columns}
    FROM ai_jobs
    WHERE user_id = :user_id AND client_reference = :client_reference
      AND id < coalesce(:before, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
      AND {matches_filter}
    ORDER BY id DESC LIMIT :limit
) job
WHERE job.tenant_id = :tenant_id
ORDER BY job.id DESC

-- name: list_jobs_of_key
-- There is at most one.
SELECT {job_columns} FROM ai_jobs
WHERE {has_key} AND id < coalesce(:before, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid) AND {matches_filter}
LIMIT :limit

-- name: list_changed_jobs
-- The events of a tenant in the order of their times, and the job with each event that is its last one: a job that
-- changed again comes with its later event.
SELECT at, job_id, seq, deleted_at, {job_columns}
FROM (
    SELECT at, job_id, seq FROM job_events
    WHERE tenant_id = :tenant_id AND (at, job_id, seq) > (:after_at, :after_job::uuid, :after_seq::integer)
      AND at < :until
    ORDER BY at, job_id, seq LIMIT :limit
) event
LEFT JOIN LATERAL (
    SELECT deleted_at, {job_columns} FROM ai_jobs
    WHERE tenant_id = :tenant_id AND id = event.job_id AND event_seq = event.seq LIMIT 1
) last ON true
ORDER BY event.at, event.job_id, event.seq

-- name: list_tasks
-- Rows are read by the user's index: see library/statements.sql, list_jobs.
SELECT {job_columns} FROM (
    SELECT {job_columns}
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
SELECT {job_columns} FROM ai_jobs
WHERE (workflow_run_id, user_id, id) >= (:workflow_run_id, :user_id, '00000000-0000-0000-0000-000000000000'::uuid)
  AND (workflow_run_id, user_id, id)
    < (:workflow_run_id, :user_id, coalesce(:before, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid))
  AND workflow_run_id IS NOT NULL AND tenant_id = :tenant_id AND actor IS NOT NULL
  AND (:status::text IS NULL OR status = :status) AND (:actor::text IS NULL OR actor = :actor)
  AND (:queue_name::text IS NULL OR queue_name = :queue_name) AND deleted_at IS NULL
ORDER BY workflow_run_id DESC, user_id DESC, id DESC LIMIT :limit

-- name: list_jobs_of_tenant
-- Newest first, in the order of the primary key, down to :from_id. A filter may match few rows, so a page may be
-- shorter than :limit, or empty, and still have a next page.
SELECT {job_columns} FROM ai_jobs
WHERE tenant_id = :tenant_id AND id >= :from_id
  AND id < coalesce(:before, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
  AND (:status::text IS NULL OR status = :status) AND (:user_id::uuid IS NULL OR user_id = :user_id)
ORDER BY id DESC LIMIT :limit

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
    SELECT {job_columns}
    FROM ai_jobs
    WHERE tenant_id = wanted.tenant_id AND id = wanted.job_id LIMIT 1
) j

-- name: delete_outbox
DELETE FROM outbox WHERE id = ANY (:ids::bigint[])

-- name: delete_outbox_of_job
DELETE FROM outbox
WHERE tenant_id = :tenant_id AND job_id = :job_id AND charge_cycle = :charge_cycle AND action = :action
