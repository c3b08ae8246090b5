-- database: pool
-- owns: pool_owner

-- name: read_owner
SELECT installation_id, central_system, central_database, central_name, central_started_at, renewed_at, pool_system,
    pool_database, renewed_at > clock_timestamp() - make_interval(secs => :lease_seconds) AS is_held,
    extract(epoch FROM clock_timestamp() - renewed_at)::float8 AS renewed_ago, attached_at, retired_at, successor,
    pg_postmaster_start_time() AS server_started_at,
    (SELECT oid::bigint FROM pg_database WHERE datname = current_database()) AS database
FROM pool_owner

-- name: claim_pool
-- Claims an unowned pool, or renews the claim of the central that owns it. Changes nothing if another central owns the
-- pool. ownership.refusal explains the same conditions in words: change both together.
INSERT INTO pool_owner AS owner (installation_id, central_system, central_database, central_name, central_started_at,
    pool_system, pool_database, attached_at)
VALUES (:installation_id, :central_system, :central_database, :central_name, :central_started_at, :pool_system,
    (SELECT oid::bigint FROM pg_database WHERE datname = current_database()), :attached_at)
ON CONFLICT (is_only) DO UPDATE SET
    central_system = excluded.central_system,
    central_name = excluded.central_name,
    central_started_at = excluded.central_started_at,
    renewed_at = clock_timestamp(),
    pool_system = excluded.pool_system,
    pool_database = excluded.pool_database
WHERE owner.installation_id = excluded.installation_id
  AND owner.central_database = excluded.central_database
  AND (owner.central_system = excluded.central_system OR 0 IN (owner.central_system, excluded.central_system))
  -- Another database took its place, or this one was restored: an operator decides.
  AND owner.retired_at IS NULL
  AND owner.attached_at = excluded.attached_at
  AND owner.pool_database = excluded.pool_database
  AND (owner.pool_system = excluded.pool_system OR 0 IN (owner.pool_system, excluded.pool_system))
  AND (owner.central_started_at IN (excluded.central_started_at, :known_started_at)
       -- Central and this pool are on one server: a physical copy of it has its own copy of this pool.
       OR excluded.central_started_at = pg_postmaster_start_time()
       OR owner.renewed_at <= clock_timestamp() - make_interval(secs => :lease_seconds))

-- name: release_pool
-- The server of central stops with this process. Its next start has another start time and need not wait for the lease.
UPDATE pool_owner SET renewed_at = clock_timestamp() - make_interval(secs => :lease_seconds)
WHERE central_started_at = :central_started_at AND central_started_at <> pg_postmaster_start_time()

-- name: take_pool
-- An operator takes the pool from the owner that the command has shown. Changes nothing if there is a new owner.
UPDATE pool_owner SET
    installation_id = :installation_id,
    central_system = :central_system,
    central_database = :central_database,
    central_name = :central_name,
    central_started_at = :central_started_at,
    renewed_at = clock_timestamp(),
    pool_system = :pool_system,
    pool_database = (SELECT oid::bigint FROM pg_database WHERE datname = current_database()),
    attached_at = :attached_at,
    retired_at = NULL,
    successor = NULL
WHERE installation_id = :seen_installation_id AND renewed_at = :seen_renewed_at

-- name: retire_pool
-- Another database took its place. Changes nothing if the database belongs to another installation.
UPDATE pool_owner SET retired_at = clock_timestamp(), successor = :successor
WHERE retired_at IS NULL AND installation_id = :installation_id
