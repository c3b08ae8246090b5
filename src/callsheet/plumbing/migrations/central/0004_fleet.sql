-- A fleet is a slug in a stage; its workflows are what its workers may be given.
CREATE TABLE gpu_fleets (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    slug             text NOT NULL CHECK (slug ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
    stage            text NOT NULL CHECK (stage ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
    name             text NOT NULL CHECK (name <> ''),
    is_active        boolean NOT NULL DEFAULT true,
    -- How many workers there should be, as whoever scales the fleet last said; null where nobody does.
    desired_workers  integer CHECK (desired_workers >= 0),
    created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (slug, stage)
);

CREATE TABLE workflow_fleets (
    fleet_id     bigint NOT NULL REFERENCES gpu_fleets (id) ON DELETE CASCADE,
    workflow_id  bigint NOT NULL REFERENCES workflows (id) ON DELETE CASCADE,
    PRIMARY KEY (fleet_id, workflow_id)
);
CREATE INDEX workflow_fleets_by_workflow ON workflow_fleets (workflow_id);

CREATE TABLE comfyui_workers (
    worker_id            text PRIMARY KEY CHECK (worker_id <> '' AND length(worker_id) <= 200),
    display_name         text NOT NULL DEFAULT '',
    registration_source  text NOT NULL CHECK (registration_source IN ('fleet', 'workflows')),
    fleet_id             bigint REFERENCES gpu_fleets (id),
    stage                text NOT NULL CHECK (stage <> ''),
    providers            text[] NOT NULL DEFAULT '{self_hosted}',
    session_id           bigint NOT NULL,
    -- Tokens are 256 random bits and more: one round of SHA-256 is enough, and lets them be found by their index.
    token_hash           bytea UNIQUE CHECK (length(token_hash) = 32),
    -- A rotated token is derived from the installation's secret and this id; only its hash is kept here.
    rotation_id          uuid,
    next_token_hash      bytea UNIQUE CHECK (length(next_token_hash) = 32),
    rotated_at           timestamptz,
    max_concurrency      integer NOT NULL DEFAULT 1 CHECK (max_concurrency > 0),
    capabilities         jsonb NOT NULL DEFAULT '{}',
    capacity_type        text CHECK (capacity_type IN ('spot', 'on-demand')),
    instance_type        text,
    is_approved          boolean NOT NULL DEFAULT true,
    is_draining          boolean NOT NULL DEFAULT false,
    revoked_at           timestamptz,
    registered_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_seen_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK ((registration_source = 'fleet') = (fleet_id IS NOT NULL)),
    CHECK ((revoked_at IS NULL) = (token_hash IS NOT NULL)),
    CHECK (num_nulls(rotation_id, next_token_hash, rotated_at) IN (0, 3))
) WITH (fillfactor = 50);
CREATE INDEX workers_of_fleet ON comfyui_workers (fleet_id);

-- For workers that registered with workflow slugs; those of a fleet have the fleet's.
CREATE TABLE worker_workflows (
    worker_id    text NOT NULL REFERENCES comfyui_workers (worker_id) ON DELETE CASCADE,
    workflow_id  bigint NOT NULL REFERENCES workflows (id) ON DELETE CASCADE,
    PRIMARY KEY (worker_id, workflow_id)
);
CREATE INDEX worker_workflows_by_workflow ON worker_workflows (workflow_id);

-- One registration of a worker. Outlives the worker's row.
CREATE TABLE worker_sessions (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    worker_id        text NOT NULL,
    fleet_slug       text,
    stage            text NOT NULL,
    capacity_type    text,
    instance_type    text,
    started_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at         timestamptz,
    end_reason       text,
    -- The seconds of all its leases, from lease to report, added up.
    busy_seconds     double precision NOT NULL DEFAULT 0,
    jobs_completed   bigint NOT NULL DEFAULT 0,
    jobs_failed      bigint NOT NULL DEFAULT 0,
    jobs_requeued    bigint NOT NULL DEFAULT 0,
    CHECK ((ended_at IS NULL) = (end_reason IS NULL))
) WITH (fillfactor = 50);
CREATE INDEX sessions_of_worker ON worker_sessions (worker_id, id);
-- A worker has one open session at most.
CREATE UNIQUE INDEX open_session_of_worker ON worker_sessions (worker_id) WHERE ended_at IS NULL;

-- Everything workers did, and what was done to them.
CREATE TABLE worker_audit_logs (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    worker_id    text NOT NULL,
    session_id   bigint,
    event        text NOT NULL CHECK (event <> ''),
    actor        text NOT NULL CHECK (actor <> ''),
    dispatch_id  bigint,
    details      jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX worker_audit_logs_of_worker ON worker_audit_logs (worker_id, id);

-- A repeated poll is answered with the lease it was given the first time.
ALTER TABLE ai_job_dispatches ADD COLUMN poll_id text;

-- Whose each of past_lease_tokens was: what became of a lease is its own worker's to know.
ALTER TABLE ai_job_dispatches ADD COLUMN past_workers text[] NOT NULL DEFAULT '{}';
ALTER TABLE dispatch_history ADD COLUMN past_workers text[] NOT NULL DEFAULT '{}';
