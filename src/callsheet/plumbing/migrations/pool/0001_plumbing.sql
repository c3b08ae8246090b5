-- Which central may work on this pool.
-- `schema_migrations` and `database_identity` are created by plumbing/database/migrate.py, before the first migration.

CREATE TABLE pool_owner (
    is_only             boolean PRIMARY KEY DEFAULT true,
    installation_id     uuid NOT NULL,
    central_system      bigint NOT NULL,
    central_database    bigint NOT NULL,
    central_name        text NOT NULL,
    central_started_at  timestamptz NOT NULL,
    renewed_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    pool_system         bigint NOT NULL,
    pool_database       bigint NOT NULL,
    attached_at         timestamptz NOT NULL,
    retired_at          timestamptz,
    successor           text,
    CONSTRAINT there_is_one_owner CHECK (is_only),
    CONSTRAINT retired_pool_has_successor CHECK ((retired_at IS NULL) = (successor IS NULL))
);
COMMENT ON TABLE pool_owner IS
    'The central that may work on this pool, in one row. No row until the first control plane claims the pool.';
COMMENT ON COLUMN pool_owner.central_system IS
    'System identifier of the server of central. 0: the server does not show it.';
COMMENT ON COLUMN pool_owner.central_database IS 'The oid of the database of central.';
COMMENT ON COLUMN pool_owner.central_name IS
    'For people: host and database, as the last control plane named them.';
COMMENT ON COLUMN pool_owner.central_started_at IS
    'Start of the server of central. Two servers that run at the same time never have the same start time, also if one '
    'is a physical copy of the other.';
COMMENT ON COLUMN pool_owner.pool_system IS
    'Where this pool was when it was claimed, like the next column: a restored copy is somewhere else.';
COMMENT ON COLUMN pool_owner.attached_at IS
    'When this database became the pool. Central has the same time, unless one of them was restored or replaced.';
COMMENT ON COLUMN pool_owner.retired_at IS 'When another database took its place. From then on, this one is refused.';
COMMENT ON COLUMN pool_owner.successor IS 'For people: host and name of the database that took its place.';
