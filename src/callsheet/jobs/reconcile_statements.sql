-- database: pool

-- name: active_jobs_page
-- A page of active jobs in the order of their deadlines, because only the index of deadlines has all active jobs. The
-- next page starts at the last deadline again, because several jobs may share it.
SELECT j.tenant_id, j.id AS job_id, j.deadline_at
FROM ai_jobs j
WHERE j.completed_at IS NULL AND j.deadline_at >= coalesce(:after, '-infinity'::timestamptz)
ORDER BY j.deadline_at LIMIT :limit

-- name: job_sides
-- The pool's data about jobs. `awaits_relay`: the relay has not yet sent the job to central.
SELECT j.tenant_id, j.user_id, j.id AS job_id, j.charge_cycle, j.workflow_id, j.stage, j.provider,
    j.concurrency_identifier, j.priority, j.kind, j.max_attempts, j.lease_seconds, j.run_limit_seconds, j.deadline_at,
    j.status, j.lease_seq,
    EXISTS (SELECT FROM outbox o
    WHERE o.tenant_id = j.tenant_id AND o.job_id = j.id AND o.charge_cycle = j.charge_cycle
        AND o.action = 'dispatch') AS awaits_relay,
    coalesce(j.completed_at, j.submitted_at)
        <= clock_timestamp() - make_interval(secs => :settle_seconds::float8) AS has_settled
FROM unnest(:tenant_ids::uuid[], :job_ids::uuid[]) AS wanted (tenant_id, job_id) CROSS JOIN LATERAL (
    SELECT id, tenant_id, user_id, kind, status, charge_cycle, lease_seq, workflow_id, stage, provider,
        concurrency_identifier, priority, max_attempts, lease_seconds, run_limit_seconds, submitted_at, deadline_at,
        completed_at
    FROM ai_jobs
    WHERE tenant_id = wanted.tenant_id AND id = wanted.job_id LIMIT 1
) j

-- name: set_priority
-- The job gets the priority of its dispatch, so that a retry keeps the priority that an admin has set. The statement
-- compares the status: with completed_at IS NULL, a plan made while the table was empty used an index of active jobs
-- and read all of the tenant's.
UPDATE ai_jobs SET priority = :priority
WHERE tenant_id = :tenant_id AND id = :job_id AND charge_cycle = :charge_cycle
  AND status IN ('pending', 'queued', 'processing')
