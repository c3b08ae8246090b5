-- database: pool

-- name: find_tenants_of_job
-- Looks up the primary key (tenant, id) once per tenant. An index by id alone would slow down every submit, and only
-- admins would use it, now and then.
SELECT t.tenant_id FROM pool_tenants t CROSS JOIN LATERAL (
    SELECT FROM ai_jobs j WHERE j.tenant_id = t.tenant_id AND j.id = :job_id LIMIT 1
) found
LIMIT 2

-- name: window_of_tenant
-- The newest :max_rows jobs of a tenant before :before: where a page of list_jobs_of_tenant ends, with any filters.
WITH newest_job AS MATERIALIZED (
    SELECT id FROM ai_jobs
    WHERE tenant_id = :tenant_id AND id < coalesce(:before, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
    ORDER BY id DESC LIMIT :max_rows::bigint
)
SELECT (SELECT id FROM newest_job ORDER BY id LIMIT 1) AS smallest_id, (SELECT count(*) FROM newest_job) AS rows

-- name: newest_events
SELECT job_id, seq, user_seq, event, from_status, to_status, actor, reason, data, at, request_id, reported
FROM job_events
WHERE tenant_id = :tenant_id AND job_id = :job_id
ORDER BY seq DESC LIMIT :limit

-- name: newest_traces
SELECT seq, trace FROM job_traces
WHERE tenant_id = :tenant_id AND job_id = :job_id
ORDER BY seq DESC LIMIT :limit

-- name: now
SELECT clock_timestamp()
