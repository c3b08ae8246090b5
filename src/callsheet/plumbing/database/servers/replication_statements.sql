-- database: central

-- part: server
current_setting('synchronous_standby_names') AS synchronous_names,
    current_setting('synchronous_commit') AS commits_wait_for,
    pg_postmaster_start_time() AS started_at,
    clock_timestamp() AS now

-- name: read_replication
-- Of every database. One row for each standby, at least one. Backups and subscriptions are left out. Without the role
-- pg_read_all_stats, only the names of standbys are visible.
SELECT {server},
    pg_has_role('pg_read_all_stats', 'USAGE') AS shows_state,
    quote_ident(current_user) AS role,
    (SELECT coalesce(array_agg(slot_name::text ORDER BY slot_name), '{}') FROM pg_replication_slots
        WHERE slot_type = 'physical' AND NOT active) AS unused_slots,
    standby.pid, coalesce(nullif(standby.application_name, ''), 'walreceiver') AS name,
    host(standby.client_addr) AS address,
    standby.sync_state IN ('sync', 'quorum') AS is_synchronous,
    pg_wal_lsn_diff(pg_current_wal_lsn(), coalesce(standby.replay_lsn, standby.flush_lsn))::bigint AS lag_bytes,
    CASE WHEN standby.replay_lsn < pg_current_wal_lsn() THEN extract(epoch FROM standby.replay_lag)::float8
        WHEN standby.replay_lsn IS NOT NULL THEN 0 END AS lag_seconds
FROM (SELECT true) one LEFT JOIN (
    pg_stat_replication standby LEFT JOIN pg_replication_slots slot ON slot.active_pid = standby.pid
) ON slot.slot_type IS DISTINCT FROM 'logical' AND standby.state IS DISTINCT FROM 'backup'
    AND standby.application_name <> 'pg_basebackup'
ORDER BY name, address, standby.pid

-- name: read_closed_replication
-- The same without what a service may keep to itself.
SELECT {server}

-- name: read_position
-- Of a primary: what it has written, and which database it is.
SELECT current_database()::text AS database,
    (SELECT system_identifier FROM pg_control_system()) AS system,
    pg_current_wal_lsn()::text AS position

-- name: look_at_replica
SELECT current_database()::text AS database,
    (SELECT system_identifier FROM pg_control_system()) AS system,
    pg_is_in_recovery() AS is_standby,
    coalesce(pg_last_wal_replay_lsn() >= (:position::text)::pg_lsn, false) AS has_position,
    extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp())::float8 AS replayed_seconds

-- name: set_replica_session
-- For the session, by a statement: a pooler refuses other settings at the start of a session.
SELECT set_config(given.name, given.setting, false)
FROM unnest(:names::text[], :settings::text[]) AS given(name, setting)
