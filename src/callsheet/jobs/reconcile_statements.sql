-- database: pool

-- name: active_jobs_page
-- A page of active jobs in the order of their deadlines, because only the index of deadlines has all active jobs. The
-- next page starts at the last deadline again, because several jobs may share it.
SELECT j.tenant_id, j.id AS job_id, j.deadline_at
FROM ai_jobs j
WHERE j.completed_at IS NULL AND j.deadline_at >= coalesce(:after, '-infinity'::timestamptz)
ORDER BY j.deadline_at LIMIT :limit

-- name: set_priority
-- The job gets the priority of its dispatch, so that a retry keeps the priority that an admin has set. The statement
-- compares the status: with completed_at IS NULL, a plan made while the table was empty used an index of active jobs
-- and read all of the tenant's.
UPDATE ai_jobs SET priority = :priority
WHERE tenant_id = :tenant_id AND id = :job_id AND charge_cycle = :charge_cycle
  AND status IN ('pending', 'queued', 'processing')
