-- The central that may work on this pool. Empty until the first control plane claims the pool.
CREATE TABLE pool_owner (
    is_only            boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    installation_id    uuid NOT NULL,
    -- Where central lives: system identifier of its server (0: the server does not tell) and oid of its database.
    central_system     bigint NOT NULL,
    central_database   bigint NOT NULL,
    -- For people: host and database, as the last control plane named them.
    central_name       text NOT NULL,
    -- Two servers that run at the same time never have the same start time, also if one is a physical copy of the other.
    central_started_at timestamptz NOT NULL,
    renewed_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Where this pool itself was when it was claimed: tells a restored copy of it from the original.
    pool_system        bigint NOT NULL,
    pool_database      bigint NOT NULL
);
