-- Fleets, their workers, and what workers did.

CREATE TABLE gpu_fleets (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    slug             text NOT NULL,
    stage            text NOT NULL,
    name             text NOT NULL,
    is_active        boolean NOT NULL DEFAULT true,
    desired_workers  integer,
    created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    next_worker_at   timestamptz,
    CONSTRAINT one_fleet_per_slug_and_stage UNIQUE (slug, stage),
    CONSTRAINT slug_is_valid CHECK (slug ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
    CONSTRAINT stage_is_valid CHECK (stage ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
    CONSTRAINT name_is_not_empty CHECK (name <> ''),
    CONSTRAINT desired_workers_are_not_negative CHECK (desired_workers >= 0)
);
COMMENT ON TABLE gpu_fleets IS 'A name in a stage that workers register with. They get the jobs of its workflows.';
COMMENT ON COLUMN gpu_fleets.desired_workers IS
    'How many workers there should be, set by the autoscaler or by another system that scales the fleet.';
COMMENT ON COLUMN gpu_fleets.next_worker_at IS 'When the next worker is expected to register. For estimates.';

-- For scaling: how many workers are wanted, and when the next one is expected.
CREATE FUNCTION fleet_announce(the_fleet bigint, wanted integer, next_at timestamptz) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE gpu_fleets SET desired_workers = wanted, next_worker_at = next_at
    WHERE id = the_fleet AND (desired_workers IS DISTINCT FROM wanted OR next_worker_at IS DISTINCT FROM next_at);
END $$;

CREATE TABLE workflow_fleets (
    fleet_id     bigint NOT NULL,
    workflow_id  bigint NOT NULL,
    PRIMARY KEY (fleet_id, workflow_id),
    CONSTRAINT fleet_exists FOREIGN KEY (fleet_id) REFERENCES gpu_fleets (id) ON DELETE CASCADE,
    CONSTRAINT workflow_exists FOREIGN KEY (workflow_id) REFERENCES workflows (id) ON DELETE CASCADE
);
COMMENT ON TABLE workflow_fleets IS 'A workflow whose jobs the workers of a fleet get.';
CREATE INDEX workflow_fleets_by_workflow ON workflow_fleets (workflow_id);

CREATE TABLE fleet_tokens (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    fleet_id      bigint NOT NULL,
    name          text NOT NULL,
    prefix        text NOT NULL,
    token_hash    bytea NOT NULL,
    replaces      bigint,
    created_by    text NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at    timestamptz,
    revoked_at    timestamptz,
    last_used_at  timestamptz,
    last_used_by  text,
    CONSTRAINT one_fleet_token_per_hash UNIQUE (token_hash),
    CONSTRAINT one_successor_per_fleet_token UNIQUE (replaces),
    CONSTRAINT fleet_exists FOREIGN KEY (fleet_id) REFERENCES gpu_fleets (id) ON DELETE CASCADE,
    CONSTRAINT replaced_token_exists FOREIGN KEY (replaces) REFERENCES fleet_tokens (id),
    CONSTRAINT name_is_not_empty CHECK (name <> ''),
    CONSTRAINT prefix_is_not_empty CHECK (prefix <> ''),
    CONSTRAINT token_hash_is_sha256 CHECK (length(token_hash) = 32),
    CONSTRAINT created_by_is_not_empty CHECK (created_by <> ''),
    CONSTRAINT last_use_is_whole CHECK (num_nulls(last_used_at, last_used_by) IN (0, 2)),
    CONSTRAINT replaces_another_token CHECK (replaces <> id)
);
COMMENT ON TABLE fleet_tokens IS 'A token that workers of a fleet register with. The fleet fixes stage and workflows.';
COMMENT ON COLUMN fleet_tokens.token_hash IS
    'SHA-256 of the token. A token is 256 random bits: one round is enough, and the index finds the token.';
COMMENT ON COLUMN fleet_tokens.replaces IS 'The token that this one replaced in a rotation.';
COMMENT ON COLUMN fleet_tokens.expires_at IS 'Set by a rotation: until then both tokens are accepted.';
COMMENT ON COLUMN fleet_tokens.last_used_by IS 'Id of the worker.';
CREATE INDEX fleet_tokens_of_fleet ON fleet_tokens (fleet_id, id);

CREATE TABLE comfyui_workers (
    worker_id               text PRIMARY KEY,
    display_name            text NOT NULL DEFAULT '',
    registration_source     text NOT NULL,
    fleet_id                bigint,
    stage                   text NOT NULL,
    providers               text[] NOT NULL DEFAULT '{self_hosted}',
    session_id              bigint NOT NULL,
    token_hash              bytea,
    rotation_id             uuid,
    next_token_hash         bytea,
    rotated_at              timestamptz,
    max_concurrency         integer NOT NULL DEFAULT 1,
    capabilities            jsonb NOT NULL DEFAULT '{}',
    capacity_type           text,
    instance_type           text,
    is_approved             boolean NOT NULL DEFAULT true,
    revoked_at              timestamptz,
    registered_at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_seen_at            timestamptz NOT NULL DEFAULT clock_timestamp(),
    fleet_token_id          bigint,
    secret_fingerprint      bytea,
    is_narrowed             boolean NOT NULL DEFAULT false,
    names_providers         boolean NOT NULL DEFAULT true,
    asg_unverified          boolean NOT NULL DEFAULT false,
    environment             bytea,
    registered_concurrency  integer,
    CONSTRAINT one_worker_per_token UNIQUE (token_hash),
    CONSTRAINT one_worker_per_next_token UNIQUE (next_token_hash),
    CONSTRAINT fleet_exists FOREIGN KEY (fleet_id) REFERENCES gpu_fleets (id),
    CONSTRAINT fleet_token_exists FOREIGN KEY (fleet_token_id) REFERENCES fleet_tokens (id) ON DELETE SET NULL,
    CONSTRAINT environment_exists FOREIGN KEY (environment) REFERENCES worker_environments (digest),
    CONSTRAINT worker_id_is_valid CHECK (worker_id <> '' AND length(worker_id) <= 200),
    CONSTRAINT registration_source_is_known CHECK (registration_source IN ('fleet', 'workflows')),
    CONSTRAINT stage_is_not_empty CHECK (stage <> ''),
    CONSTRAINT token_hash_is_sha256 CHECK (length(token_hash) = 32),
    CONSTRAINT next_token_hash_is_sha256 CHECK (length(next_token_hash) = 32),
    CONSTRAINT max_concurrency_is_positive CHECK (max_concurrency > 0),
    CONSTRAINT registered_concurrency_is_positive CHECK (registered_concurrency > 0),
    CONSTRAINT capacity_type_is_known CHECK (capacity_type IN ('spot', 'on-demand')),
    CONSTRAINT secret_fingerprint_is_a_hash CHECK (length(secret_fingerprint) = 32),
    CONSTRAINT source_fleet_means_a_fleet CHECK ((registration_source = 'fleet') = (fleet_id IS NOT NULL)),
    CONSTRAINT revoked_means_no_token CHECK ((revoked_at IS NULL) = (token_hash IS NOT NULL)),
    CONSTRAINT rotation_is_whole CHECK (num_nulls(rotation_id, next_token_hash, rotated_at) IN (0, 3)),
    CONSTRAINT registered_with_one_credential CHECK (num_nonnulls(fleet_token_id, secret_fingerprint) < 2)
) WITH (fillfactor = 50);
COMMENT ON TABLE comfyui_workers IS 'A worker that is registered. The row is written each second while it polls.';
COMMENT ON COLUMN comfyui_workers.registration_source IS
    'What says which workflows it gets: its fleet, or the list that it registered with.';
COMMENT ON COLUMN comfyui_workers.session_id IS 'The present registration, in `worker_sessions`.';
COMMENT ON COLUMN comfyui_workers.token_hash IS
    'SHA-256 of the token of the worker. A token is at least 256 random bits: one round is enough, and the index finds '
    'the token. NULL: revoked.';
COMMENT ON COLUMN comfyui_workers.rotation_id IS
    'The next token is derived from the secret key of the installation and this id. Only its hash is stored.';
COMMENT ON COLUMN comfyui_workers.max_concurrency IS
    'Jobs that the worker can run at once now. A worker with several engines reports it with its polls.';
COMMENT ON COLUMN comfyui_workers.registered_concurrency IS
    'Jobs at once that the worker registered with: the most that it may report.';
COMMENT ON COLUMN comfyui_workers.capabilities IS 'What the worker said about its machine when it registered.';
COMMENT ON COLUMN comfyui_workers.fleet_token_id IS 'The token of a fleet that it registered with.';
COMMENT ON COLUMN comfyui_workers.secret_fingerprint IS 'Keyed hash of the shared secret that it registered with.';
COMMENT ON COLUMN comfyui_workers.is_narrowed IS
    'Whether it gets only those workflows of its fleet that are in `worker_workflows`.';
COMMENT ON COLUMN comfyui_workers.names_providers IS
    'Whether it named its providers when it registered. A worker that did not may name those of its engine in a poll.';
COMMENT ON COLUMN comfyui_workers.asg_unverified IS
    'Whether AWS could not be asked about the instance when the worker registered.';
COMMENT ON COLUMN comfyui_workers.environment IS
    'What its engine has. NULL: the worker did not report it, and gets every job of its workflows.';
CREATE INDEX workers_of_fleet ON comfyui_workers (fleet_id);
CREATE INDEX workers_of_fleet_token ON comfyui_workers (fleet_token_id);
CREATE INDEX workers_of_environment ON comfyui_workers (environment) WHERE environment IS NOT NULL;

CREATE TABLE worker_workflows (
    worker_id    text NOT NULL,
    workflow_id  bigint NOT NULL,
    PRIMARY KEY (worker_id, workflow_id),
    CONSTRAINT worker_exists FOREIGN KEY (worker_id) REFERENCES comfyui_workers (worker_id) ON DELETE CASCADE,
    CONSTRAINT workflow_exists FOREIGN KEY (workflow_id) REFERENCES workflows (id) ON DELETE CASCADE
);
COMMENT ON TABLE worker_workflows IS
    'A workflow that a worker registered with. Workers of a fleet have the workflows of the fleet.';
CREATE INDEX worker_workflows_by_workflow ON worker_workflows (workflow_id);

CREATE TABLE worker_engine_use (
    worker_id    text PRIMARY KEY,
    session_id   bigint NOT NULL,
    engines      jsonb NOT NULL,
    reported_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT worker_exists FOREIGN KEY (worker_id) REFERENCES comfyui_workers (worker_id) ON DELETE CASCADE,
    CONSTRAINT engines_is_a_list CHECK (jsonb_typeof(engines) = 'array')
) WITH (fillfactor = 50);
COMMENT ON TABLE worker_engine_use IS
    'How much of its time each engine of a worker was idle in the last hour, as the worker last reported it. Workers '
    'that report nothing have no row.';

CREATE TABLE worker_machines (
    worker_id        text PRIMARY KEY,
    session_id       bigint NOT NULL,
    disk_free_bytes  bigint,
    disk_size_bytes  bigint,
    capabilities     jsonb,
    reported_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT worker_exists FOREIGN KEY (worker_id) REFERENCES comfyui_workers (worker_id) ON DELETE CASCADE,
    CONSTRAINT disk_free_bytes_are_not_negative CHECK (disk_free_bytes >= 0),
    CONSTRAINT disk_size_bytes_are_not_negative CHECK (disk_size_bytes >= 0),
    CONSTRAINT capabilities_is_an_object CHECK (jsonb_typeof(capabilities) = 'object')
) WITH (fillfactor = 50);
COMMENT ON TABLE worker_machines IS
    'What a worker last reported about its machine with a poll. Workers that report nothing have no row.';
COMMENT ON COLUMN worker_machines.capabilities IS
    'The capabilities now, which may have changed since the worker registered.';

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
    busy_seconds     double precision NOT NULL DEFAULT 0,
    jobs_completed   bigint NOT NULL DEFAULT 0,
    jobs_failed      bigint NOT NULL DEFAULT 0,
    jobs_requeued    bigint NOT NULL DEFAULT 0,
    CONSTRAINT ended_means_a_reason CHECK ((ended_at IS NULL) = (end_reason IS NULL))
) WITH (fillfactor = 50);
COMMENT ON TABLE worker_sessions IS 'One registration of a worker. It outlives the row of the worker.';
COMMENT ON COLUMN worker_sessions.busy_seconds IS 'The sum of the seconds of its leases, each from lease to report.';
CREATE INDEX sessions_of_worker ON worker_sessions (worker_id, id);
-- A worker has one open session at most.
CREATE UNIQUE INDEX open_session_of_worker ON worker_sessions (worker_id) WHERE ended_at IS NULL;
-- Sessions in the order in which they ended: old ones are deleted.
CREATE INDEX ended_sessions ON worker_sessions (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE removed_worker_tokens (
    token_hash  bytea PRIMARY KEY,
    session_id  bigint NOT NULL,
    removed_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT session_exists FOREIGN KEY (session_id) REFERENCES worker_sessions (id) ON DELETE CASCADE,
    CONSTRAINT token_hash_is_sha256 CHECK (length(token_hash) = 32)
);
COMMENT ON TABLE removed_worker_tokens IS
    'The token of a worker that was removed because it was silent too long. A request with it gets the response that '
    'asks the worker to register again. A token is 256 random bits, so only its worker can send it.';
CREATE INDEX removed_worker_tokens_by_age ON removed_worker_tokens (removed_at);
CREATE INDEX removed_worker_tokens_of_session ON removed_worker_tokens (session_id);

CREATE TABLE worker_approvals (
    worker_id    text PRIMARY KEY,
    approved_by  text NOT NULL,
    since        timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT approved_by_is_not_empty CHECK (approved_by <> '')
);
COMMENT ON TABLE worker_approvals IS
    'A worker id that an operator approved. It belongs to the id and outlives registrations.';

CREATE TABLE worker_drains (
    worker_id     text PRIMARY KEY,
    since         timestamptz NOT NULL DEFAULT clock_timestamp(),
    drained_by    text NOT NULL,
    reason        text,
    ending_since  timestamptz,
    CONSTRAINT worker_id_is_valid CHECK (worker_id <> '' AND length(worker_id) <= 200),
    CONSTRAINT drained_by_is_not_empty CHECK (drained_by <> ''),
    CONSTRAINT reason_is_not_empty CHECK (reason <> '')
);
COMMENT ON TABLE worker_drains IS
    'A worker id that gets no new jobs. It belongs to the id: it outlives the row of the worker and stays until an '
    'operator removes it.';
COMMENT ON COLUMN worker_drains.ending_since IS
    'Since when the autoscaler is ending the worker. From then on the drain cannot be removed.';

-- Which of these workers are drained, for the statements that lease. Leases share the lock and a drain takes it alone,
-- both until they commit: after a drain is committed no lease can follow. VOLATILE, because the rows must be read after
-- the lock was waited for: each statement of a volatile function has a snapshot of its own, while the statement that
-- calls it keeps the one it started with.
CREATE FUNCTION drained_workers(asking text[]) RETURNS text[] VOLATILE LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtextextended('callsheet drains', 0));
    RETURN ARRAY (SELECT worker_id FROM worker_drains WHERE worker_id = ANY (asking));
END
$$;

CREATE TABLE worker_audit_logs (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    worker_id    text NOT NULL,
    session_id   bigint,
    event        text NOT NULL,
    actor        text NOT NULL,
    dispatch_id  bigint,
    details      jsonb NOT NULL DEFAULT '{}',
    CONSTRAINT event_is_not_empty CHECK (event <> ''),
    CONSTRAINT actor_is_not_empty CHECK (actor <> '')
);
COMMENT ON TABLE worker_audit_logs IS 'Something that a worker did, or that was done to it.';
COMMENT ON COLUMN worker_audit_logs.actor IS 'Who acted: the worker, an operator or a loop.';
CREATE INDEX worker_audit_logs_of_worker ON worker_audit_logs (worker_id, id);
-- Attempts that an engine did not survive. They are few among the lines of the log, and each check of alerts reads them.
CREATE INDEX worker_audit_logs_engine_ends ON worker_audit_logs (at)
    WHERE event = 'failed' AND details ->> 'type' IN ('engine_stuck', 'run_lost', 'engine_unreachable');

CREATE TABLE workflow_timings (
    workflow_id      bigint PRIMARY KEY,
    average_seconds  double precision NOT NULL,
    samples          bigint NOT NULL,
    updated_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT workflow_exists FOREIGN KEY (workflow_id) REFERENCES workflows (id),
    CONSTRAINT average_seconds_are_not_negative CHECK (average_seconds >= 0),
    CONSTRAINT samples_are_positive CHECK (samples > 0)
) WITH (fillfactor = 50);
COMMENT ON TABLE workflow_timings IS 'How long runs of a workflow take: a moving average, for estimates.';
