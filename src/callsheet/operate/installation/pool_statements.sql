-- database: pool

-- name: figures_of_tenants
-- Reads the wallets and the active jobs of these tenants by their indexes. Storage has one row for a whole tenant.
SELECT wanted.tenant_id, wallets.balance, active.held, active.jobs AS active_jobs,
    coalesce(used.bytes, 0) AS storage_bytes, coalesce(used.files, 0) AS storage_files
FROM unnest(:tenant_ids::uuid[]) AS wanted (tenant_id)
CROSS JOIN LATERAL (
    SELECT coalesce(sum(w.balance), 0) AS balance FROM token_wallets w WHERE w.tenant_id = wanted.tenant_id
) wallets
CROSS JOIN LATERAL (
    SELECT coalesce(sum(j.cost), 0) AS held, count(*) AS jobs FROM ai_jobs j
    WHERE j.tenant_id = wanted.tenant_id AND j.completed_at IS NULL
) active
LEFT JOIN storage_usage used ON used.tenant_id = wanted.tenant_id AND used.user_id = :whole_tenant

-- name: newest_local_files
SELECT f.path FROM files f
WHERE f.status = 'ready' AND f.disk = 'local' AND f.deleted_at IS NULL
ORDER BY f.created_at DESC
LIMIT :max_rows

-- name: pool_contents
-- Ids of jobs have the order of time.
SELECT pg_database_size(current_database()) AS size_bytes, count(*) AS jobs, max(j.id::text)::uuid AS newest_job,
    max(j.created_at) AS newest_at, clock_timestamp() AS now
FROM ai_jobs j

-- name: count_jobs_after
SELECT count(*) FROM ai_jobs WHERE :newest_job::uuid IS NULL OR id > :newest_job

-- name: list_tenants
SELECT tenant_id FROM pool_tenants
