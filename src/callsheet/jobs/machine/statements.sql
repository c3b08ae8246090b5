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

-- name: delete_outbox
DELETE FROM outbox WHERE id = ANY (:ids::bigint[])

-- name: delete_outbox_of_job
DELETE FROM outbox
WHERE tenant_id = :tenant_id AND job_id = :job_id AND charge_cycle = :charge_cycle AND action = :action
