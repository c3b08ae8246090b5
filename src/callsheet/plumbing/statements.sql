-- database: central
-- owns: database_identity, installation, pools, schema_migrations

-- name: list_pools
SELECT name, database, sealed_dsn FROM pools ORDER BY created_at, name

-- name: register_pool
INSERT INTO pools (name, database, sealed_dsn) VALUES (:name, :database, :sealed_dsn)
ON CONFLICT (name) DO UPDATE SET database = excluded.database, sealed_dsn = excluded.sealed_dsn

-- name: reseal_pool
-- Changes nothing if the DSN was changed meanwhile.
UPDATE pools SET sealed_dsn = :sealed_dsn WHERE name = :name AND sealed_dsn = :before

-- name: read_installation
SELECT id, possible_copy_at FROM installation

-- name: keeps_fingerprint
-- A restored central may have the schema of an earlier version.
SELECT EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'installation'::regclass AND attname = 'secret_fingerprint')

-- name: read_secret_fingerprint
SELECT secret_fingerprint FROM installation

-- name: record_first_fingerprint
-- Two control planes may start at the same time: both get the fingerprint that was recorded first.
UPDATE installation SET secret_fingerprint = coalesce(secret_fingerprint, :fingerprint) RETURNING secret_fingerprint

-- name: replace_fingerprint
UPDATE installation SET secret_fingerprint = :fingerprint

-- name: read_next_id
SELECT next_id FROM installation

-- name: read_server
-- Identifies this database, without the system identifier, which some servers do not report.
SELECT d.oid::bigint AS database, d.datname AS database_name, pg_postmaster_start_time() AS started_at
FROM pg_database d
WHERE d.datname = current_database()

-- name: mark_possible_copy
UPDATE installation SET possible_copy_at = clock_timestamp() WHERE possible_copy_at IS NULL

-- name: adopt_scaling
SELECT scaling_adopt(:installation_id, :central_system, :central_database)

-- name: clear_possible_copy
UPDATE installation SET possible_copy_at = NULL WHERE possible_copy_at IS NOT NULL

-- name: choose_next_id
-- After a crash the id stays the same, because some pools may have it already.
UPDATE installation SET next_id = coalesce(next_id, gen_random_uuid()) RETURNING next_id

-- name: become_next
UPDATE installation SET id = next_id, next_id = NULL, possible_copy_at = NULL WHERE next_id IS NOT NULL
