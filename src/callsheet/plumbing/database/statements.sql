-- database: central
-- owns: database_identity, installation, pools, schema_migrations

-- name: list_pools
SELECT name, database, sealed_dsn, attached_at FROM pools ORDER BY created_at, name

-- name: register_pool
INSERT INTO pools (name, database, sealed_dsn) VALUES (:name, :database, :sealed_dsn)
ON CONFLICT (name) DO UPDATE SET database = excluded.database, sealed_dsn = excluded.sealed_dsn

-- name: attach_pool
-- The database becomes the pool.
INSERT INTO pools (name, sealed_dsn, attached_at) VALUES (:name, :sealed_dsn, :attached_at)
ON CONFLICT (name) DO UPDATE SET
    database = NULL, sealed_dsn = excluded.sealed_dsn, attached_at = excluded.attached_at

-- name: attach_pool_again
-- The database that is at the place of the pool now becomes the pool: it was restored there.
UPDATE pools SET attached_at = :attached_at WHERE name = :name

-- name: read_clock
SELECT clock_timestamp()

-- name: read_installation
SELECT id, possible_copy_at FROM installation

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

-- name: look_at_server
-- Of every database. The timeline of the log that is written now: it is raised when a standby is promoted, before the
-- control file says so.
SELECT version() AS version, pg_backend_pid() AS backend, pg_is_in_recovery() AS is_standby,
    current_setting('transaction_read_only')::boolean AS is_read_only,
    (SELECT system_identifier FROM pg_control_system()) AS system,
    CASE WHEN pg_is_in_recovery() THEN 0
        ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint END AS timeline,
    pg_postmaster_start_time() AS started_at, clock_timestamp() AS now

-- name: look_at_closed_server
-- The same without what a service may keep to itself.
SELECT version() AS version, pg_backend_pid() AS backend, pg_is_in_recovery() AS is_standby,
    current_setting('transaction_read_only')::boolean AS is_read_only,
    0::bigint AS system, 0::bigint AS timeline, pg_postmaster_start_time() AS started_at, clock_timestamp() AS now

-- name: set_session
-- Of every database: settings of this session.
SELECT count(set_config(setting.name, setting.value, false))
FROM unnest(:names::text[], :settings::text[]) AS setting (name, value)

-- name: take_turn_at_role
SELECT pg_advisory_xact_lock(hashtextextended('callsheet settings of a role', 0))

-- name: write_role_settings
-- Of every database: the commands for the settings that are not yet defaults of this role in this database.
SELECT format('ALTER ROLE %I IN DATABASE %I SET %I = %L', current_user, current_database(), setting.name, setting.value)
FROM unnest(:names::text[], :settings::text[]) AS setting (name, value)
WHERE NOT EXISTS (
    SELECT FROM pg_db_role_setting kept
    JOIN pg_database d ON d.oid = kept.setdatabase
    JOIN pg_roles role ON role.oid = kept.setrole
    WHERE d.datname = current_database() AND role.rolname = current_user
      AND setting.name || '=' || setting.value = ANY (kept.setconfig)
)
