-- database: pool

-- name: find_tenants_of_job
-- Looks up the primary key (tenant, id) once per tenant. An index by id alone would slow down every submit, and only
-- admins would use it, now and then.
SELECT t.tenant_id FROM pool_tenants t CROSS JOIN LATERAL (
    SELECT FROM ai_jobs j WHERE j.tenant_id = t.tenant_id AND j.id = :job_id LIMIT 1
) found
LIMIT 2

-- name: active_jobs_of_user
SELECT id FROM ai_jobs WHERE tenant_id = :tenant_id AND user_id = :user_id AND completed_at IS NULL ORDER BY id
