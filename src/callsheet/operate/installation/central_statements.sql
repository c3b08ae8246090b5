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

-- name: other_machines
-- Network addresses from which other processes of Callsheet use this database. Null for a socket of the same machine.
SELECT DISTINCT host(s.client_addr) AS network_address FROM pg_stat_activity s
WHERE s.datname = current_database() AND s.application_name = 'callsheet' AND s.client_addr <> inet_client_addr()
ORDER BY network_address
