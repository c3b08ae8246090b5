-- database: pool

-- name: active_jobs_page
-- A page of active jobs in the order of their deadlines, because only the index of deadlines has all active jobs. The
-- next page starts at the last deadline again, because several jobs may share it.
SELECT j.tenant_id, j.id AS job_id, j.deadline_at
FROM ai_jobs j
WHERE j.completed_at IS NULL AND j.deadline_at >= coalesce(:after, '-infinity'::timestamptz)
ORDER BY j.deadline_at LIMIT :limit

-- name: find_overdue
-- The time is a sub-select, because an index condition cannot use a volatile function: every active job would be read.
SELECT tenant_id, id AS job_id, charge_cycle, status FROM ai_jobs
WHERE completed_at IS NULL AND deadline_at <= (SELECT coalesce(:now, clock_timestamp()))
ORDER BY deadline_at LIMIT :limit
