-- database: central

-- name: list_pools
SELECT name, database, sealed_dsn FROM pools ORDER BY created_at, name

-- name: register_pool
INSERT INTO pools (name, database, sealed_dsn) VALUES (:name, :database, :sealed_dsn)
ON CONFLICT (name) DO UPDATE SET database = excluded.database, sealed_dsn = excluded.sealed_dsn
