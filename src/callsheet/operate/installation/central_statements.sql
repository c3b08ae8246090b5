-- database: central

-- name: find_tenants
-- `users` without deleted ones.
SELECT t.id, t.db_pool AS pool,
    (SELECT count(*) FROM users u WHERE u.tenant_id = t.id AND u.deleted_at IS NULL) AS users
FROM tenants t
WHERE t.id = ANY (:tenant_ids::uuid[]) AND (:only::uuid IS NULL OR t.id = :only)

-- name: newer_dispatches
-- Jobs of a pool that are newer than the newest one in its database. Ids of jobs have the order of time.
SELECT count(DISTINCT d.tenant_job_id) AS jobs, max(d.created_at) AS newest_at
FROM (
    SELECT tenant_id, tenant_job_id, created_at FROM ai_job_dispatches
    UNION ALL SELECT tenant_id, tenant_job_id, created_at FROM dispatch_history
) d
JOIN tenants t ON t.id = d.tenant_id
WHERE t.db_pool = :pool AND (:newest_job::uuid IS NULL OR d.tenant_job_id > :newest_job)

-- name: newest_dispatched_job
SELECT d.tenant_job_id
FROM (
    SELECT tenant_id, tenant_job_id FROM ai_job_dispatches
    UNION ALL SELECT tenant_id, tenant_job_id FROM dispatch_history
) d
JOIN tenants t ON t.id = d.tenant_id
WHERE t.db_pool = :pool
ORDER BY d.tenant_job_id DESC
LIMIT 1

-- name: tenants_of_other_pools
SELECT slug, db_pool AS pool FROM tenants WHERE id = ANY (:tenant_ids::uuid[]) AND db_pool <> :pool ORDER BY slug

-- name: missing_tenants
SELECT slug FROM tenants WHERE db_pool = :pool AND NOT id = ANY (:tenant_ids::uuid[]) ORDER BY slug

-- name: list_pools
SELECT p.name, count(t.id) AS tenants FROM pools p LEFT JOIN tenants t ON t.db_pool = p.name
GROUP BY p.name
ORDER BY p.name

-- name: other_machines
-- Network addresses from which other processes of Callsheet use this database. Null for a socket of the same machine.
SELECT DISTINCT host(s.client_addr) AS network_address FROM pg_stat_activity s
WHERE s.datname = current_database() AND s.application_name = 'callsheet' AND s.client_addr <> inet_client_addr()
ORDER BY network_address
