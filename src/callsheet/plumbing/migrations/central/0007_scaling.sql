-- Fleets that follow their queues.

CREATE TABLE fleet_scaling (
    fleet_id                    bigint PRIMARY KEY,
    driver                      text NOT NULL,
    options                     jsonb NOT NULL DEFAULT '{}',
    providers                   text[] NOT NULL,
    minimum                     integer NOT NULL,
    maximum                     integer NOT NULL,
    target_seconds              double precision NOT NULL,
    warm_up_seconds             double precision NOT NULL,
    scale_out_cooldown_seconds  double precision NOT NULL,
    scale_in_cooldown_seconds   double precision NOT NULL,
    idle_seconds                double precision NOT NULL,
    on_demand_minimum           integer NOT NULL,
    spot_share                  double precision NOT NULL,
    installation_id             uuid NOT NULL,
    central_system              bigint NOT NULL,
    central_database            bigint NOT NULL,
    updated_by                  text NOT NULL,
    updated_at                  timestamptz NOT NULL DEFAULT clock_timestamp(),

    -- The columns below are written by the autoscaler only.
    memory                      jsonb NOT NULL DEFAULT '{}',
    checked_at                   timestamptz,
    wanted                      integer,
    on_demand                   integer,
    serving                     integer,
    coming                      integer,
    draining                    integer,
    existing                    integer,
    queued_jobs                 integer,
    queued_seconds              double precision,
    cause                       text,
    reason                      text,
    at_maximum_since            timestamptz,
    at_maximum_queued_seconds   double precision,
    driver_error                text,
    driver_failing_since        timestamptz,
    driver_failures             integer NOT NULL DEFAULT 0,
    CONSTRAINT fleet_exists FOREIGN KEY (fleet_id) REFERENCES gpu_fleets (id),
    CONSTRAINT driver_is_valid CHECK (driver ~ '^[a-z][a-z0-9_]{0,62}$'),
    CONSTRAINT options_is_an_object CHECK (jsonb_typeof(options) = 'object'),
    CONSTRAINT providers_are_named CHECK (cardinality(providers) > 0),
    CONSTRAINT minimum_is_not_negative CHECK (minimum >= 0),
    CONSTRAINT maximum_is_in_range CHECK (maximum BETWEEN 1 AND 1000),
    CONSTRAINT target_seconds_are_enough CHECK (target_seconds >= 1),
    CONSTRAINT warm_up_seconds_are_not_negative CHECK (warm_up_seconds >= 0),
    CONSTRAINT scale_out_cooldown_is_not_negative CHECK (scale_out_cooldown_seconds >= 0),
    CONSTRAINT scale_in_cooldown_is_not_negative CHECK (scale_in_cooldown_seconds >= 0),
    CONSTRAINT idle_seconds_are_not_negative CHECK (idle_seconds >= 0),
    CONSTRAINT on_demand_minimum_is_not_negative CHECK (on_demand_minimum >= 0),
    CONSTRAINT spot_share_is_a_share CHECK (spot_share BETWEEN 0 AND 1),
    CONSTRAINT updated_by_is_not_empty CHECK (updated_by <> ''),
    CONSTRAINT wanted_is_not_negative CHECK (wanted >= 0),
    CONSTRAINT minimums_are_below_the_maximum CHECK (minimum <= maximum AND on_demand_minimum <= maximum),
    CONSTRAINT driver_error_has_a_time CHECK (num_nulls(driver_error, driver_failing_since) IN (0, 2)),
    CONSTRAINT time_at_maximum_is_whole CHECK (num_nulls(at_maximum_since, at_maximum_queued_seconds) IN (0, 2))
) WITH (fillfactor = 50);
COMMENT ON TABLE fleet_scaling IS
    'A fleet that follows its queue: its driver and rules, and what the autoscaler last saw and decided. The fleet '
    'cannot be deleted: its driver may have workers that have not registered yet.';
COMMENT ON COLUMN fleet_scaling.options IS 'Options of the driver.';
COMMENT ON COLUMN fleet_scaling.providers IS 'Providers of the jobs that its workers get, also while it has none.';
COMMENT ON COLUMN fleet_scaling.minimum IS 'Fewest workers.';
COMMENT ON COLUMN fleet_scaling.maximum IS 'Most workers.';
COMMENT ON COLUMN fleet_scaling.target_seconds IS 'How long the queue may be, in seconds of work per worker.';
COMMENT ON COLUMN fleet_scaling.warm_up_seconds IS 'From the order of a worker to its registration.';
COMMENT ON COLUMN fleet_scaling.idle_seconds IS 'How long a worker is idle before it is ended.';
COMMENT ON COLUMN fleet_scaling.on_demand_minimum IS 'Fewest workers that are not spot instances.';
COMMENT ON COLUMN fleet_scaling.spot_share IS 'Share of spot instances among the workers above that.';
COMMENT ON COLUMN fleet_scaling.installation_id IS
    'The installation, with the place of central in the next two columns, in which an operator set the rules. Another '
    'central with this row is a copy, and does not drive the workers.';
COMMENT ON COLUMN fleet_scaling.memory IS 'What one check of the autoscaler leaves for the next.';
COMMENT ON COLUMN fleet_scaling.checked_at IS 'Time of the last check.';
COMMENT ON COLUMN fleet_scaling.wanted IS 'Workers that there should be.';
COMMENT ON COLUMN fleet_scaling.on_demand IS 'How many of them should not be spot instances.';
COMMENT ON COLUMN fleet_scaling.serving IS 'Workers that get jobs.';
COMMENT ON COLUMN fleet_scaling.coming IS 'Workers that were ordered and have not registered yet.';
COMMENT ON COLUMN fleet_scaling.existing IS 'Workers that there are, by the driver.';
COMMENT ON COLUMN fleet_scaling.at_maximum_since IS
    'Since when the fleet is at its maximum; the next column is how long its queue was then.';

-- For the adoption of a central: fleets that this installation scales are its own in this database, too. Those of
-- another installation stay as they are.
CREATE FUNCTION scaling_adopt(the_installation uuid, the_system bigint, the_database bigint) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    UPDATE fleet_scaling SET central_system = the_system, central_database = the_database
    WHERE installation_id = the_installation;
END $$;

CREATE TABLE fleet_environments (
    fleet_id  bigint NOT NULL,
    digest    bytea NOT NULL,
    seen_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (fleet_id, digest),
    CONSTRAINT fleet_exists FOREIGN KEY (fleet_id) REFERENCES fleet_scaling (fleet_id) ON DELETE CASCADE,
    CONSTRAINT environment_exists FOREIGN KEY (digest) REFERENCES worker_environments (digest) ON DELETE CASCADE
);
COMMENT ON TABLE fleet_environments IS
    'An environment of the last workers of a scaled fleet. It stays while the fleet has no worker, because the next '
    'worker starts from the same image: for a job that this image cannot run, no worker is started.';
CREATE INDEX fleets_of_environment ON fleet_environments (digest);

CREATE TABLE scaling_decisions (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    fleet_id        bigint NOT NULL,
    at              timestamptz NOT NULL DEFAULT clock_timestamp(),
    cause           text NOT NULL,
    reason          text NOT NULL,
    wanted          integer NOT NULL,
    on_demand       integer NOT NULL,
    serving         integer NOT NULL,
    coming          integer NOT NULL,
    queued_jobs     integer NOT NULL,
    queued_seconds  double precision NOT NULL,
    drained         text[] NOT NULL DEFAULT '{}',
    undrained       text[] NOT NULL DEFAULT '{}',
    ended           text[] NOT NULL DEFAULT '{}',
    CONSTRAINT fleet_exists FOREIGN KEY (fleet_id) REFERENCES gpu_fleets (id) ON DELETE CASCADE,
    CONSTRAINT cause_is_not_empty CHECK (cause <> ''),
    CONSTRAINT reason_is_not_empty CHECK (reason <> ''),
    CONSTRAINT wanted_is_not_negative CHECK (wanted >= 0)
);
COMMENT ON TABLE scaling_decisions IS 'A decision of the autoscaler that differs from the one before.';
COMMENT ON COLUMN scaling_decisions.cause IS 'A code for programs. `reason` is the sentence for people.';
COMMENT ON COLUMN scaling_decisions.drained IS 'Ids of the workers that the decision drained.';
CREATE INDEX scaling_decisions_of_fleet ON scaling_decisions (fleet_id, id);
