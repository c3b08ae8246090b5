-- database: central

-- name: find_tenants
-- `users` without deleted ones.
SELECT t.id, t.db_pool AS pool,
    (SELECT count(*) FROM users u WHERE u.tenant_id = t.id AND u.deleted_at IS NULL) AS users
FROM tenants t
WHERE t.id = ANY (:tenant_ids::uuid[]) AND (:only::uuid IS NULL OR t.id = :only)

-- name: list_pools
SELECT p.name, count(t.id) AS tenants FROM pools p LEFT JOIN tenants t ON t.db_pool = p.name
GROUP BY p.name
ORDER BY p.name
