-- Fleets that follow their queues: by which driver and which rules, and what the autoscaler saw and wanted last.
CREATE TABLE fleet_scaling (
    -- A fleet that is scaled cannot be deleted: its driver may have workers that have not registered yet.
    fleet_id                    bigint PRIMARY KEY REFERENCES gpu_fleets (id),
    driver                      text NOT NULL CHECK (driver ~ '^[a-z][a-z0-9_]{0,62}$'),
    options                     jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(options) = 'object'),
    -- Of the jobs that its workers take, also while it has none.
    providers                   text[] NOT NULL CHECK (cardinality(providers) > 0),
    minimum                     integer NOT NULL CHECK (minimum >= 0),
    maximum                     integer NOT NULL CHECK (maximum BETWEEN 1 AND 1000),
    target_seconds              double precision NOT NULL CHECK (target_seconds >= 1),
    warm_up_seconds             double precision NOT NULL CHECK (warm_up_seconds >= 0),
    scale_out_cooldown_seconds  double precision NOT NULL CHECK (scale_out_cooldown_seconds >= 0),
    scale_in_cooldown_seconds   double precision NOT NULL CHECK (scale_in_cooldown_seconds >= 0),
    idle_seconds                double precision NOT NULL CHECK (idle_seconds >= 0),
    on_demand_minimum           integer NOT NULL CHECK (on_demand_minimum >= 0),
    spot_share                  double precision NOT NULL CHECK (spot_share BETWEEN 0 AND 1),
    -- Where an operator said so: another central with these rows is a copy, and does not drive anybody's workers.
    installation_id             uuid NOT NULL,
    central_system              bigint NOT NULL,
    central_database            bigint NOT NULL,
    updated_by                  text NOT NULL CHECK (updated_by <> ''),
    updated_at                  timestamptz NOT NULL DEFAULT clock_timestamp(),

    -- What follows is the autoscaler's own. What one look leaves for the next:
    memory                      jsonb NOT NULL DEFAULT '{}',
    looked_at                   timestamptz,
    wanted                      integer CHECK (wanted >= 0),
    on_demand                   integer,
    serving                     integer,
    coming                      integer,
    draining                    integer,
    -- What the driver said there is.
    existing                    integer,
    queued_jobs                 integer,
    queued_seconds              double precision,
    cause                       text,
    reason                      text,
    -- Since when it stands at its maximum, and how long its queue was then.
    at_maximum_since            timestamptz,
    at_maximum_queued_seconds   double precision,
    driver_error                text,
    driver_failing_since        timestamptz,
    driver_failures             integer NOT NULL DEFAULT 0,
    CHECK (minimum <= maximum AND on_demand_minimum <= maximum),
    CHECK (num_nulls(driver_error, driver_failing_since) IN (0, 2)),
    CHECK (num_nulls(at_maximum_since, at_maximum_queued_seconds) IN (0, 2))
) WITH (fillfactor = 50);

-- Written when a decision differs from the one before.
CREATE TABLE scaling_decisions (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    fleet_id        bigint NOT NULL REFERENCES gpu_fleets (id) ON DELETE CASCADE,
    at              timestamptz NOT NULL DEFAULT clock_timestamp(),
    cause           text NOT NULL CHECK (cause <> ''),
    reason          text NOT NULL CHECK (reason <> ''),
    wanted          integer NOT NULL CHECK (wanted >= 0),
    on_demand       integer NOT NULL,
    serving         integer NOT NULL,
    coming          integer NOT NULL,
    queued_jobs     integer NOT NULL,
    queued_seconds  double precision NOT NULL,
    drained         text[] NOT NULL DEFAULT '{}',
    undrained       text[] NOT NULL DEFAULT '{}',
    ended           text[] NOT NULL DEFAULT '{}'
);
CREATE INDEX scaling_decisions_of_fleet ON scaling_decisions (fleet_id, id);

-- Since when the autoscaler is ending the worker: from then on the drain cannot be undone.
ALTER TABLE worker_drains ADD COLUMN ending_since timestamptz;

-- When the next worker that was ordered is expected to register; whoever scales the fleet says so, like desired_workers.
ALTER TABLE gpu_fleets ADD COLUMN next_worker_at timestamptz;
