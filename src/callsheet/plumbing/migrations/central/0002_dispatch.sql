-- What can run: the routing key. The catalog adds graph, properties and effects.
CREATE TABLE workflows (
    id                 bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    slug               text NOT NULL UNIQUE CHECK (slug ~ '^[a-z0-9][a-z0-9:_.-]{0,127}$'),
    name               text NOT NULL CHECK (name <> ''),
    is_active          boolean NOT NULL DEFAULT true,
    run_limit_seconds  integer NOT NULL DEFAULT 3600 CHECK (run_limit_seconds > 0),
    created_at         timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- How many dispatches of one identifier may be out at once. Slots are derived from live rows, never counted here.
CREATE TABLE concurrency_limits (
    identifier      text PRIMARY KEY CHECK (identifier <> ''),
    max_concurrent  integer NOT NULL CHECK (max_concurrent >= 0)
);

-- One lane per routing key and priority. A lease looks at the head of each lane it may serve, so its cost does not
-- grow with the length or the shape of the queue.
--
-- low_water: no queued row of the lane has a smaller dispatch_id. Without it a lease walks over the dead index
-- entries of everything leased before it, for as long as some session keeps vacuum from removing them.
CREATE TABLE dispatch_lanes (
    lane_id                 bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    workflow_id             bigint NOT NULL REFERENCES workflows (id),
    stage                   text NOT NULL CHECK (stage <> ''),
    provider                text NOT NULL CHECK (provider <> ''),
    concurrency_identifier  text NOT NULL DEFAULT '',
    priority                integer NOT NULL DEFAULT 0,
    low_water               bigint NOT NULL DEFAULT 0,
    UNIQUE (workflow_id, stage, provider, concurrency_identifier, priority),
    UNIQUE (lane_id, workflow_id, stage, provider, concurrency_identifier, priority)
) WITH (fillfactor = 50);

CREATE TABLE ai_job_dispatches (
    dispatch_id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id               uuid NOT NULL REFERENCES tenants (id),
    tenant_job_id           uuid NOT NULL,
    charge_cycle            integer NOT NULL CHECK (charge_cycle > 0),
    lane_id                 bigint NOT NULL,
    workflow_id             bigint NOT NULL,
    stage                   text NOT NULL,
    provider                text NOT NULL,
    concurrency_identifier  text NOT NULL DEFAULT '',
    priority                integer NOT NULL,
    kind                    text NOT NULL,
    status                  text NOT NULL DEFAULT 'queued' CHECK (status IN ('queued', 'leased', 'waiting')),
    attempts                integer NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    max_attempts            integer NOT NULL DEFAULT 3 CHECK (max_attempts > 0),
    requeues                integer NOT NULL DEFAULT 0,
    lease_token             uuid,
    lease_seq               bigint NOT NULL DEFAULT 0,
    lease_seconds           integer NOT NULL DEFAULT 900 CHECK (lease_seconds > 0),
    lease_expires_at        timestamptz,
    past_lease_tokens       uuid[] NOT NULL DEFAULT '{}',
    worker_id               text,
    provider_job_id         text,
    run_limit_seconds       integer NOT NULL DEFAULT 3600 CHECK (run_limit_seconds > 0),
    run_started_at          timestamptz,
    not_before              timestamptz,
    deadline_at             timestamptz NOT NULL,
    cancel_requested_at     timestamptz,
    last_error              text,
    created_at              timestamptz NOT NULL DEFAULT clock_timestamp(),
    queue_wait_seconds      double precision,
    leased_at               timestamptz,
    last_leased_at          timestamptz,
    heartbeat_at            timestamptz,
    UNIQUE (tenant_id, tenant_job_id, charge_cycle),
    FOREIGN KEY (lane_id, workflow_id, stage, provider, concurrency_identifier, priority)
        REFERENCES dispatch_lanes (lane_id, workflow_id, stage, provider, concurrency_identifier, priority),
    CHECK ((status = 'leased') = (lease_token IS NOT NULL)),
    CHECK ((status = 'queued') = (lease_expires_at IS NULL)),
    CHECK (status <> 'leased' OR worker_id IS NOT NULL)
    -- Heartbeats rewrite rows in place (HOT) while their page has room and no index has their columns.
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500,
        autovacuum_vacuum_cost_delay = 0);

CREATE INDEX dispatches_queued ON ai_job_dispatches (lane_id, dispatch_id)
    WHERE status = 'queued' AND not_before IS NULL;
CREATE INDEX dispatches_delayed ON ai_job_dispatches (not_before)
    WHERE status = 'queued' AND not_before IS NOT NULL;
-- The reaper reads all of it (as many rows as there is work in hand, not as there is work waiting).
CREATE INDEX dispatches_held ON ai_job_dispatches (worker_id, dispatch_id) WHERE status <> 'queued';
CREATE INDEX dispatches_of_identifier ON ai_job_dispatches (concurrency_identifier)
    WHERE status <> 'queued' AND concurrency_identifier <> '';

-- Finished dispatches, with the token that settled them: a repeated report is answered from here.
CREATE TABLE dispatch_history (
    dispatch_id             bigint PRIMARY KEY,
    tenant_id               uuid NOT NULL,
    tenant_job_id           uuid NOT NULL,
    charge_cycle            integer NOT NULL,
    workflow_id             bigint NOT NULL,
    stage                   text NOT NULL,
    provider                text NOT NULL,
    concurrency_identifier  text NOT NULL,
    priority                integer NOT NULL,
    kind                    text NOT NULL,
    status                  text NOT NULL CHECK (status IN ('completed', 'failed', 'canceled', 'expired')),
    attempts                integer NOT NULL,
    requeues                integer NOT NULL,
    lease_token             uuid,
    lease_seq               bigint NOT NULL,
    past_lease_tokens       uuid[] NOT NULL,
    worker_id               text,
    provider_job_id         text,
    last_error              text,
    created_at              timestamptz NOT NULL,
    queue_wait_seconds      double precision,
    last_leased_at          timestamptz,
    run_started_at          timestamptz,
    finished_at             timestamptz NOT NULL,
    duration_seconds        double precision,
    UNIQUE (tenant_id, tenant_job_id, charge_cycle)
);
