-- database: central

-- name: name_tenants
SELECT id, slug FROM tenants WHERE id = ANY (:ids::uuid[])

-- name: name_users
SELECT id, email FROM users WHERE id = ANY (:ids::uuid[])

-- name: name_workflows
SELECT id, slug FROM workflows WHERE id = ANY (:ids::bigint[])

-- name: find_workflows
SELECT id FROM workflows WHERE slug = ANY (:slugs::text[])

-- name: find_jobs_of_worker
-- Jobs that the worker holds, and those of the last :max_read jobs of the history that it held in any attempt.
SELECT tenant_job_id AS job_id FROM ai_job_dispatches WHERE status <> 'queued' AND worker_id = :worker_id
UNION
SELECT tenant_job_id FROM (
    SELECT tenant_job_id, worker_id, past_workers FROM dispatch_history ORDER BY dispatch_id DESC LIMIT :max_read
) recent
WHERE worker_id = :worker_id OR :worker_id = ANY (past_workers)
