-- Which installation this database belongs to, and where its pools are.
-- `schema_migrations` and `database_identity` are created by plumbing/database/migrate.py, before the first migration.

CREATE TABLE installation (
    is_only             boolean PRIMARY KEY DEFAULT true,
    id                  uuid NOT NULL,
    next_id             uuid,
    possible_copy_at    timestamptz,
    created_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    secret_fingerprint  text,
    CONSTRAINT there_is_one_installation CHECK (is_only)
);
COMMENT ON TABLE installation IS
    'The installation, in one row. A pool records the same id, so that another installation cannot use it.';
COMMENT ON COLUMN installation.is_only IS 'Always true, so that there is one row.';
COMMENT ON COLUMN installation.next_id IS
    'While a copy is repointed: the id that the installation gets when all its pools have it.';
COMMENT ON COLUMN installation.possible_copy_at IS
    'When another central with this id was seen at work on one of the pools. An operator clears it.';
COMMENT ON COLUMN installation.secret_fingerprint IS
    'Identifies the secret key without revealing it. NULL until the first control plane starts.';

INSERT INTO installation (id) VALUES (gen_random_uuid());

CREATE TABLE pools (
    name        text PRIMARY KEY,
    database    text,
    sealed_dsn  bytea,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    attached_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT name_is_an_identifier CHECK (name ~ '^[a-z][a-z0-9_]{0,62}$'),
    CONSTRAINT pool_is_in_one_place CHECK (num_nonnulls(database, sealed_dsn) = 1)
);
COMMENT ON TABLE pools IS 'A database that holds the files, jobs and wallets of some tenants.';
COMMENT ON COLUMN pools.database IS 'Name of the database, if it is on the server of central.';
COMMENT ON COLUMN pools.sealed_dsn IS 'DSN of the database, if it is elsewhere, encrypted with the secret key. A second line is its DSN through a pooler.';
COMMENT ON COLUMN pools.attached_at IS
    'When this database became the pool. The database records the same time, so that an earlier one is refused.';
