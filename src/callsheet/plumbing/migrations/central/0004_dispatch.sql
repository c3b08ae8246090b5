-- The queue. A dispatch is the row of a job in the queue; a lane is the queue of one user.

CREATE TABLE concurrency_limits (
    identifier      text PRIMARY KEY,
    max_concurrent  integer NOT NULL,
    is_declared     boolean NOT NULL DEFAULT false,
    CONSTRAINT identifier_is_not_empty CHECK (identifier <> ''),
    CONSTRAINT max_concurrent_is_a_limit CHECK (max_concurrent >= 0)
);
COMMENT ON TABLE concurrency_limits IS
    'How many dispatches of one identifier may be leased at once. Used slots are counted from the dispatches.';
COMMENT ON COLUMN concurrency_limits.is_declared IS
    'Whether the provider declared the limit, and may change it. A limit that an operator set stays as it is.';

CREATE TABLE dispatch_lanes (
    lane_id                 bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    workflow_id             bigint NOT NULL,
    stage                   text NOT NULL,
    provider                text NOT NULL,
    concurrency_identifier  text NOT NULL DEFAULT '',
    priority                integer NOT NULL DEFAULT 0,
    low_water               bigint NOT NULL DEFAULT 0,
    tenant_id               uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    user_id                 uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    has_work                boolean NOT NULL DEFAULT true,
    opened_at               timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT one_lane_per_route UNIQUE (
        workflow_id, stage, provider, concurrency_identifier, priority, tenant_id, user_id),
    CONSTRAINT workflow_exists FOREIGN KEY (workflow_id) REFERENCES workflows (id),
    CONSTRAINT stage_is_not_empty CHECK (stage <> ''),
    CONSTRAINT provider_is_not_empty CHECK (provider <> '')
) WITH (fillfactor = 50);
COMMENT ON TABLE dispatch_lanes IS
    'The queue of one user for one route and priority. A lease reads the head of each lane that the worker may serve, '
    'so its cost does not grow with the length of the queue.';
COMMENT ON COLUMN dispatch_lanes.concurrency_identifier IS 'Limited together by `concurrency_limits`. Empty: no limit.';
COMMENT ON COLUMN dispatch_lanes.low_water IS
    'No queued dispatch of the lane has a smaller id. Without it, a lease reads the dead index entries of everything '
    'that was leased before, as long as a session keeps vacuum from removing them.';
COMMENT ON COLUMN dispatch_lanes.tenant_id IS
    'All zeros, like the user: the lane of all users whose jobs are leased strictly in the order of arrival.';
COMMENT ON COLUMN dispatch_lanes.has_work IS
    'False: no queued dispatch of the lane can be leased. It may be true for a moment after the last one was leased.';
CREATE INDEX lanes_with_work ON dispatch_lanes (workflow_id, stage, provider) WHERE has_work;

CREATE TABLE ai_job_dispatches (
    dispatch_id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id               uuid NOT NULL,
    tenant_job_id           uuid NOT NULL,
    charge_cycle            integer NOT NULL,
    lane_id                 bigint NOT NULL,
    workflow_id             bigint NOT NULL,
    stage                   text NOT NULL,
    provider                text NOT NULL,
    concurrency_identifier  text NOT NULL DEFAULT '',
    priority                integer NOT NULL,
    kind                    text NOT NULL,
    status                  text NOT NULL DEFAULT 'queued',
    attempts                integer NOT NULL DEFAULT 0,
    max_attempts            integer NOT NULL DEFAULT 3,
    requeues                integer NOT NULL DEFAULT 0,
    lease_token             uuid,
    lease_seq               bigint NOT NULL DEFAULT 0,
    lease_seconds           integer NOT NULL DEFAULT 900,
    lease_expires_at        timestamptz,
    past_lease_tokens       uuid[] NOT NULL DEFAULT '{}',
    worker_id               text,
    provider_job_id         text,
    run_limit_seconds       integer NOT NULL DEFAULT 3600,
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
    poll_id                 text,
    past_workers            text[] NOT NULL DEFAULT '{}',
    wedges                  integer NOT NULL DEFAULT 0,
    user_id                 uuid NOT NULL,
    refused_by              text[] NOT NULL DEFAULT '{}',
    CONSTRAINT one_dispatch_per_cycle UNIQUE (tenant_id, tenant_job_id, charge_cycle),
    CONSTRAINT tenant_exists FOREIGN KEY (tenant_id) REFERENCES tenants (id),
    CONSTRAINT charge_cycle_is_positive CHECK (charge_cycle > 0),
    CONSTRAINT status_is_known CHECK (status IN ('queued', 'leased', 'waiting')),
    CONSTRAINT attempts_are_not_negative CHECK (attempts >= 0),
    CONSTRAINT max_attempts_is_positive CHECK (max_attempts > 0),
    CONSTRAINT lease_seconds_is_positive CHECK (lease_seconds > 0),
    CONSTRAINT run_limit_seconds_is_positive CHECK (run_limit_seconds > 0),
    CONSTRAINT wedges_are_not_negative CHECK (wedges >= 0),
    CONSTRAINT leased_means_a_token CHECK ((status = 'leased') = (lease_token IS NOT NULL)),
    CONSTRAINT leased_means_a_worker CHECK (status <> 'leased' OR worker_id IS NOT NULL),
    CONSTRAINT held_means_an_expiry CHECK ((status = 'queued') = (lease_expires_at IS NULL))
    -- Heartbeats rewrite rows in place (HOT) while their page has room and no index has their columns.
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500,
        autovacuum_vacuum_cost_delay = 0);
COMMENT ON TABLE ai_job_dispatches IS
    'A job in the queue, in one charge cycle: it waits for a worker, is leased to one, or waits for a provider. A '
    'finished dispatch moves to `dispatch_history`.';
COMMENT ON COLUMN ai_job_dispatches.tenant_job_id IS 'The job, in the pool of the tenant.';
COMMENT ON COLUMN ai_job_dispatches.lane_id IS
    'The lane, whose route the next columns repeat. Triggers take the place of a foreign key, see below.';
COMMENT ON COLUMN ai_job_dispatches.status IS 'waiting: a provider works on it and will call back.';
COMMENT ON COLUMN ai_job_dispatches.attempts IS 'Leases that count as tries.';
COMMENT ON COLUMN ai_job_dispatches.requeues IS 'Leases that were given back and do not count as tries.';
COMMENT ON COLUMN ai_job_dispatches.lease_token IS 'Proves that a report belongs to the present lease.';
COMMENT ON COLUMN ai_job_dispatches.lease_seq IS 'Number of the lease. The job remembers it.';
COMMENT ON COLUMN ai_job_dispatches.past_lease_tokens IS 'Tokens of earlier leases, for late reports.';
COMMENT ON COLUMN ai_job_dispatches.past_workers IS
    'Workers of the earlier leases: the outcome of a lease is shown to its own worker only.';
COMMENT ON COLUMN ai_job_dispatches.worker_id IS 'The worker of the lease, or of the last one.';
COMMENT ON COLUMN ai_job_dispatches.run_started_at IS 'When the engine started the run. NULL while the job waits in the queue of the engine.';
COMMENT ON COLUMN ai_job_dispatches.not_before IS 'Earliest time of the next lease, after a failed attempt.';
COMMENT ON COLUMN ai_job_dispatches.queue_wait_seconds IS 'Time in the queue until the first lease.';
COMMENT ON COLUMN ai_job_dispatches.poll_id IS
    'The poll that got the lease: when the worker repeats the poll, it gets the same lease.';
COMMENT ON COLUMN ai_job_dispatches.wedges IS
    'How often a run of the dispatch stopped its engine for good. The second time, the job fails.';
COMMENT ON COLUMN ai_job_dispatches.refused_by IS
    'Workers whose engines refused the graph because they lack a value that the job chose.';

CREATE INDEX dispatches_queued ON ai_job_dispatches (lane_id, dispatch_id)
    WHERE status = 'queued' AND not_before IS NULL;
CREATE INDEX dispatches_delayed ON ai_job_dispatches (not_before)
    WHERE status = 'queued' AND not_before IS NOT NULL;
-- The reaper reads all of it: as many rows as jobs are held, not as jobs are waiting.
CREATE INDEX dispatches_held ON ai_job_dispatches (worker_id, dispatch_id) WHERE status <> 'queued';
CREATE INDEX dispatches_of_identifier ON ai_job_dispatches (concurrency_identifier)
    WHERE status <> 'queued' AND concurrency_identifier <> '';
-- Whether a lane that is removed has jobs whose time has not come. A lease writes nothing to it.
CREATE INDEX dispatches_delayed_of_lane ON ai_job_dispatches (lane_id)
    WHERE status = 'queued' AND not_before IS NOT NULL;
-- What tenants and users have in flight, where that is limited, and the worker that has it. A lease sets worker_id, so
-- PostgreSQL does not take the new entry for a copy of an older one. For such copies it looks for old ones to delete, in
-- the table too, whenever a page of the index is full. Nothing reads this index where no tenant has a limit, so pages
-- were always full: without worker_id, this took up to a tenth of PostgreSQL's time per lease.
CREATE INDEX dispatches_held_of_tenant ON ai_job_dispatches (tenant_id, user_id, worker_id)
    WHERE status <> 'queued';

-- Every dispatch has its lane, with the same route. A foreign key would need an index of all dispatches by lane, and
-- every lease would write an entry to it: a sixth of what PostgreSQL does for a job. These triggers keep the same
-- promise with the other indexes, and take the same locks.
CREATE FUNCTION dispatch_has_its_lane() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM dispatch_lanes l
    WHERE l.lane_id = NEW.lane_id
      AND (l.workflow_id, l.stage, l.provider, l.concurrency_identifier, l.priority)
        = (NEW.workflow_id, NEW.stage, NEW.provider, NEW.concurrency_identifier, NEW.priority)
    FOR KEY SHARE;
    IF NOT FOUND THEN
        RAISE foreign_key_violation USING MESSAGE = format(
            'dispatch %s has lane %s, which does not exist or has another route', NEW.dispatch_id, NEW.lane_id);
    END IF;
    RETURN NULL;
END
$$;
-- Not for a lease: it sets none of these columns.
CREATE TRIGGER dispatch_has_its_lane
    AFTER INSERT OR UPDATE OF lane_id, workflow_id, stage, provider, concurrency_identifier, priority ON ai_job_dispatches
    FOR EACH ROW EXECUTE FUNCTION dispatch_has_its_lane();

-- It runs after the rows were locked and waited for, so that it sees what an enqueue has committed meanwhile. Whatever
-- puts a dispatch into a lane locks the lane first; so one statement sees each dispatch of a locked lane in one of the
-- three states.
CREATE FUNCTION removed_lanes_are_empty() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    used bigint;
BEGIN
    SELECT r.lane_id INTO used FROM removed r
    WHERE EXISTS (
            SELECT FROM ai_job_dispatches d
            WHERE (d.lane_id, d.dispatch_id) >= (r.lane_id, r.low_water) AND d.lane_id <= r.lane_id
              AND d.status = 'queued' AND d.not_before IS NULL)
       OR EXISTS (
            SELECT FROM ai_job_dispatches d
            WHERE d.lane_id = r.lane_id AND d.status = 'queued' AND d.not_before IS NOT NULL)
       OR r.lane_id IN (SELECT d.lane_id FROM ai_job_dispatches d WHERE d.status <> 'queued')
    LIMIT 1;
    IF FOUND THEN
        RAISE foreign_key_violation USING MESSAGE = format('lane %s cannot be removed: dispatches are in it', used);
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER removed_lanes_are_empty AFTER DELETE ON dispatch_lanes REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION removed_lanes_are_empty();

CREATE FUNCTION lane_keeps_its_route() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE foreign_key_violation USING MESSAGE = format('lane %s keeps its route: dispatches may be in it', OLD.lane_id);
END
$$;
CREATE TRIGGER lane_keeps_its_route
    BEFORE UPDATE OF lane_id, workflow_id, stage, provider, concurrency_identifier, priority ON dispatch_lanes
    FOR EACH ROW EXECUTE FUNCTION lane_keeps_its_route();

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
    status                  text NOT NULL,
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
    past_workers            text[] NOT NULL DEFAULT '{}',
    CONSTRAINT one_finished_dispatch_per_cycle UNIQUE (tenant_id, tenant_job_id, charge_cycle),
    CONSTRAINT status_is_known CHECK (status IN ('completed', 'failed', 'canceled', 'expired'))
);
COMMENT ON TABLE dispatch_history IS
    'A finished dispatch, with the token that settled it, so that a repeated report gets the same response. The '
    'columns are those of `ai_job_dispatches`.';
COMMENT ON COLUMN dispatch_history.duration_seconds IS 'How long the last run took.';
-- The dispatches that finished in the last minutes. Rows come in the order of their ends, so the first and last time of
-- each megabyte are enough. An ordinary index would take a seventh of the statement that ends a job.
CREATE INDEX history_by_end ON dispatch_history USING brin (finished_at)
    WITH (pages_per_range = 32, autosummarize = on);
