-- Jobs, their history, and what central must be notified about.

CREATE TABLE ai_jobs (
    tenant_id               uuid NOT NULL,
    id                      uuid NOT NULL,
    user_id                 uuid NOT NULL,
    kind                    text NOT NULL,
    status                  text NOT NULL,
    charge_cycle            integer NOT NULL DEFAULT 1,
    lease_seq               bigint NOT NULL DEFAULT 0,
    event_seq               integer NOT NULL DEFAULT 0,
    cost                    bigint NOT NULL,
    workflow_id             bigint NOT NULL,
    stage                   text NOT NULL,
    provider                text NOT NULL,
    concurrency_identifier  text NOT NULL DEFAULT '',
    priority                integer NOT NULL DEFAULT 0,
    max_attempts            integer NOT NULL DEFAULT 3,
    lease_seconds           integer NOT NULL DEFAULT 900,
    run_limit_seconds       integer NOT NULL DEFAULT 3600,
    lifetime_seconds        integer NOT NULL,
    payload                 jsonb NOT NULL,
    result                  jsonb,
    provider_job_id         text,
    error                   jsonb,
    idempotency_key         text,
    webhook_url             text,
    client_reference        text,
    metadata                jsonb,
    request_hash            bytea,
    request_fields          jsonb,
    created_at              timestamptz NOT NULL DEFAULT clock_timestamp(),
    submitted_at            timestamptz NOT NULL DEFAULT clock_timestamp(),
    deadline_at             timestamptz NOT NULL,
    started_at              timestamptz,
    completed_at            timestamptz,
    effect_id               uuid,
    video_id                uuid,
    input_file_ids          uuid[] NOT NULL DEFAULT '{}',
    output_file_id          uuid,
    actor                   text,
    queue_name              text,
    workflow_run_id         text,
    run_id                  uuid,
    step_id                 uuid,
    parent_candidate_id     uuid,
    batch_id                uuid,
    batch_item              integer,
    refund_on_cancel        text NOT NULL DEFAULT 'all',
    medium                  text,
    outcome                 text,
    outcome_cycle           integer,
    deleted_at              timestamptz,
    error_fingerprint       text,
    counted_bytes           bigint NOT NULL DEFAULT 0,
    key_id                  uuid,
    paid_by_tenant          boolean NOT NULL DEFAULT false,
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT tenant_is_in_this_pool FOREIGN KEY (tenant_id) REFERENCES pool_tenants (tenant_id),
    CONSTRAINT wallet_exists FOREIGN KEY (tenant_id, user_id) REFERENCES token_wallets (tenant_id, owner_id),
    CONSTRAINT status_is_known CHECK (
        status IN ('pending', 'queued', 'processing', 'completed', 'failed', 'canceled', 'expired')),
    CONSTRAINT charge_cycle_is_positive CHECK (charge_cycle > 0),
    CONSTRAINT lease_seq_is_not_negative CHECK (lease_seq >= 0),
    CONSTRAINT cost_is_not_negative CHECK (cost >= 0),
    CONSTRAINT max_attempts_is_positive CHECK (max_attempts > 0),
    CONSTRAINT lease_seconds_is_positive CHECK (lease_seconds > 0),
    CONSTRAINT run_limit_seconds_is_positive CHECK (run_limit_seconds > 0),
    CONSTRAINT lifetime_seconds_is_positive CHECK (lifetime_seconds > 0),
    CONSTRAINT actor_is_valid CHECK (actor ~ '^[a-z][a-z0-9_]{0,62}$'),
    CONSTRAINT queue_name_is_valid CHECK (queue_name ~ '^[a-z0-9][a-z0-9_-]{0,62}$'),
    CONSTRAINT workflow_run_id_is_not_empty CHECK (workflow_run_id <> ''),
    CONSTRAINT webhook_url_is_short CHECK (length(webhook_url) BETWEEN 1 AND 2000),
    CONSTRAINT client_reference_is_a_line CHECK (client_reference ~ '^[^\x01-\x1f\x7f]{1,200}$'),
    CONSTRAINT metadata_is_a_small_object CHECK (
        jsonb_typeof(metadata) = 'object' AND octet_length(metadata::text) <= 8192),
    CONSTRAINT refund_on_cancel_is_known CHECK (refund_on_cancel IN ('all', 'unspent')),
    CONSTRAINT key_has_its_request CHECK ((idempotency_key IS NULL) = (request_hash IS NULL)),
    CONSTRAINT fields_need_a_request CHECK (request_fields IS NULL OR request_hash IS NOT NULL),
    CONSTRAINT ended_means_a_time CHECK (
        (status IN ('completed', 'failed', 'canceled', 'expired')) = (completed_at IS NOT NULL)),
    CONSTRAINT processing_needs_a_lease CHECK (status <> 'processing' OR lease_seq > 0),
    CONSTRAINT task_has_a_queue CHECK ((actor IS NULL) = (queue_name IS NULL)),
    CONSTRAINT run_has_a_step CHECK ((run_id IS NULL) = (step_id IS NULL)),
    CONSTRAINT parent_needs_a_run CHECK (parent_candidate_id IS NULL OR run_id IS NOT NULL),
    CONSTRAINT batch_has_an_item CHECK ((batch_id IS NULL) = (batch_item IS NULL)),
    CONSTRAINT outcome_is_the_status_of_its_cycle CHECK (
        outcome_cycle IS DISTINCT FROM charge_cycle OR outcome = status),
    -- A retry that overlaps a deletion fails here.
    CONSTRAINT only_ended_jobs_are_deleted CHECK (deleted_at IS NULL OR completed_at IS NOT NULL)
    -- No index names the status, and pages have room for what moves together: two of a job's three changes then leave the
    -- indexes alone (HOT). The table is no larger for it, its indexes are a quarter smaller. Index-only scans of lists
    -- need pages that vacuum has seen.
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.05);
COMMENT ON TABLE ai_jobs IS 'A unit of work of a user. Rows are never deleted.';
COMMENT ON COLUMN ai_jobs.kind IS 'What the job is for its worker, for example `comfyui`, or the name of an actor.';
COMMENT ON COLUMN ai_jobs.charge_cycle IS 'Number of the charge cycle: the first run and each retry are one.';
COMMENT ON COLUMN ai_jobs.lease_seq IS
    'Number of the lease that the job runs under. A report of another lease changes nothing.';
COMMENT ON COLUMN ai_jobs.event_seq IS 'Number of the last event in `job_events`.';
COMMENT ON COLUMN ai_jobs.cost IS 'Tokens of one charge cycle.';
COMMENT ON COLUMN ai_jobs.workflow_id IS 'The workflow, in central. With the next four columns: the route in the queue.';
COMMENT ON COLUMN ai_jobs.lifetime_seconds IS 'From the submission or a retry to the deadline.';
COMMENT ON COLUMN ai_jobs.payload IS 'What the worker gets.';
COMMENT ON COLUMN ai_jobs.provider_job_id IS 'What the provider calls the job.';
COMMENT ON COLUMN ai_jobs.request_hash IS
    'Hash of the request with the idempotency key: the same key for another request is refused.';
COMMENT ON COLUMN ai_jobs.request_fields IS
    'A short hash of each field of that request, to say which fields of another request differ. Ids are not hashed.';
COMMENT ON COLUMN ai_jobs.webhook_url IS
    'Where events of this job are sent; an endpoint of its user has its start.';
COMMENT ON COLUMN ai_jobs.client_reference IS 'What the client calls the job, for example the number of an order.';
COMMENT ON COLUMN ai_jobs.metadata IS 'Texts of the client, by key.';
COMMENT ON COLUMN ai_jobs.submitted_at IS 'Start of the charge cycle.';
COMMENT ON COLUMN ai_jobs.effect_id IS 'The effect, in central. NULL: a task, or a job of a workflow.';
COMMENT ON COLUMN ai_jobs.video_id IS 'The video that the job works on.';
COMMENT ON COLUMN ai_jobs.input_file_ids IS
    'Files of the user that the job reads. The first is its primary input.';
COMMENT ON COLUMN ai_jobs.output_file_id IS 'The main result.';
COMMENT ON COLUMN ai_jobs.actor IS 'The actor of a task. NULL: the job is not a task.';
COMMENT ON COLUMN ai_jobs.workflow_run_id IS 'What the system of the user calls the run that the task is part of.';
COMMENT ON COLUMN ai_jobs.run_id IS 'The run of a pipeline that started the job, with its step.';
COMMENT ON COLUMN ai_jobs.parent_candidate_id IS 'The candidate that the job starts from.';
COMMENT ON COLUMN ai_jobs.batch_id IS 'The batch that the job was submitted with.';
COMMENT ON COLUMN ai_jobs.batch_item IS 'Number of the job in its batch, from 1.';
COMMENT ON COLUMN ai_jobs.medium IS
    'What the main output is: image, video, audio, text or other. Expected until the job completes.';
COMMENT ON COLUMN ai_jobs.outcome IS
    'The status that the job ended with in `outcome_cycle`. The status itself can be in no index: each change of it '
    'would be written to all of them.';
COMMENT ON COLUMN ai_jobs.outcome_cycle IS 'It says nothing while a later cycle runs.';
COMMENT ON COLUMN ai_jobs.deleted_at IS 'When the user deleted the job: no user sees it any more.';
COMMENT ON COLUMN ai_jobs.error_fingerprint IS
    'Equal errors have equal fingerprints (jobs/machine/fingerprints.py). NULL: no error.';
COMMENT ON COLUMN ai_jobs.counted_bytes IS
    'Bytes of JSON that count for the user in `database_usage`: what is written with the row, until it is removed.';
COMMENT ON COLUMN ai_jobs.key_id IS
    'The API key, in central, that submitted the job or started its run. NULL: a browser session, or a loop.';
COMMENT ON COLUMN ai_jobs.paid_by_tenant IS
    'The tokens of this charge cycle are from the wallet of the tenant. False: from the wallet of the user.';

-- Only the primary key begins with the tenant. Between indexes that look equally cheap, as all do on an empty table, the
-- planner takes any, and plans are kept: one took another index by its tenant alone, and read all of its jobs. A job
-- without a key is not in this index.
CREATE UNIQUE INDEX one_job_per_key ON ai_jobs (idempotency_key, tenant_id, user_id) WHERE idempotency_key IS NOT NULL;
CREATE INDEX jobs_active_of_user ON ai_jobs (tenant_id, user_id) WHERE completed_at IS NULL;
-- What was ever made of a video is deleted with it.
CREATE INDEX jobs_of_video ON ai_jobs (video_id) WHERE video_id IS NOT NULL;
CREATE INDEX jobs_of_workflow_run ON ai_jobs (workflow_run_id, user_id, id) WHERE workflow_run_id IS NOT NULL;
CREATE INDEX jobs_of_client_reference ON ai_jobs (user_id, client_reference, id) WHERE client_reference IS NOT NULL;
-- For lists of tasks: a user's other jobs may be many more.
CREATE INDEX tasks_of_user ON ai_jobs (user_id, id) WHERE actor IS NOT NULL;
CREATE INDEX jobs_of_run ON ai_jobs (run_id, id) WHERE run_id IS NOT NULL;
CREATE UNIQUE INDEX one_job_per_item ON ai_jobs (batch_id, batch_item) WHERE batch_id IS NOT NULL;
-- Everything that lists filter by is in the index: a user's jobs lie side by side there, and anywhere in the table.
CREATE INDEX jobs_of_user ON ai_jobs (user_id, id)
    INCLUDE (tenant_id, kind, actor, medium, effect_id, run_id, batch_id, created_at, charge_cycle, outcome, outcome_cycle,
        deleted_at);
-- Jobs in the order in which they ended: the events of old ones are deleted.
CREATE INDEX jobs_by_end ON ai_jobs (completed_at, id) WHERE completed_at IS NOT NULL;
-- This index and the next ones serve only statements that compare their key, because only those imply that the key is
-- not null. Otherwise they would fit every other statement about active or ended jobs, and where tables are small,
-- PostgreSQL takes the newest of all indexes that fit. A dump and restore changes which one that is.
CREATE INDEX deadlines_of_active_jobs ON ai_jobs (deadline_at)
    WHERE completed_at IS NULL AND deadline_at IS NOT NULL;
-- Jobs of all tenants in the order of their ids: the active ones, the ended ones, those without a result, and those of
-- one error; and errors in the order of time. A job is in the index of active jobs or in that of ended ones, so that its
-- two entries cost as much as those of one index, and a few active jobs are found among a million ended ones.
CREATE INDEX active_jobs_by_id ON ai_jobs (id) INCLUDE (tenant_id)
    WHERE completed_at IS NULL AND id IS NOT NULL;
CREATE INDEX ended_jobs_by_id ON ai_jobs (id) INCLUDE (tenant_id)
    WHERE completed_at IS NOT NULL AND id IS NOT NULL;
CREATE INDEX unsuccessful_jobs_by_id ON ai_jobs (id) INCLUDE (tenant_id)
    WHERE outcome IN ('failed', 'canceled', 'expired') AND id IS NOT NULL;
CREATE INDEX jobs_of_error ON ai_jobs (error_fingerprint, id) INCLUDE (tenant_id)
    WHERE error_fingerprint IS NOT NULL;
CREATE INDEX errors_by_end ON ai_jobs (completed_at) INCLUDE (error_fingerprint, tenant_id, workflow_id)
    WHERE error_fingerprint IS NOT NULL AND completed_at IS NOT NULL;

-- Effect jobs, tasks, typed jobs, jobs of runs and jobs of batches are counted apart, each against its own limit. Typed
-- jobs have the name of their actor as kind.
CREATE FUNCTION counted_as(the_run uuid, the_batch uuid, the_actor text, the_kind text) RETURNS text
    LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN the_run IS NOT NULL THEN 'runs' WHEN the_batch IS NOT NULL THEN 'batches'
        WHEN the_actor IS NULL THEN 'jobs'
        WHEN the_actor = the_kind THEN 'typed' ELSE 'tasks' END
$$;

-- VOLATILE on purpose: it is called after the lock of the wallet was waited for, and must see what was committed
-- meanwhile.
CREATE FUNCTION active_jobs_as(the_tenant uuid, the_user uuid, the_class text) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT count(*) FROM ai_jobs
    WHERE tenant_id = the_tenant AND user_id = the_user AND completed_at IS NULL
      AND counted_as(run_id, batch_id, actor, kind) = the_class
$$;

-- The seconds until a user may submit the next job, or NULL for now. Jobs that runs start by themselves do not count,
-- and jobs of batches neither: batches have a limit of their own. VOLATILE, like active_jobs_as. Ids contain the time of the control plane, whose clock may differ by a minute.
CREATE FUNCTION submit_wait(the_tenant uuid, the_user uuid, most integer) RETURNS integer LANGUAGE sql VOLATILE AS $$
    SELECT ceil(extract(epoch FROM created_at + interval '1 minute' - clock_timestamp()))::integer FROM ai_jobs
    WHERE user_id = the_user AND tenant_id = the_tenant AND run_id IS NULL AND batch_id IS NULL
      AND id > (lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint - 120000), 12, '0')
          || repeat('0', 20))::uuid
      AND created_at > clock_timestamp() - interval '1 minute'
    ORDER BY id DESC OFFSET most - 1 LIMIT 1
$$;

CREATE FUNCTION medium_of(mime_type text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN split_part(mime_type, '/', 1) IN ('image', 'video', 'audio', 'text')
        THEN split_part(mime_type, '/', 1) ELSE 'other' END
$$;

CREATE TABLE user_streams (
    tenant_id  uuid NOT NULL,
    user_id    uuid NOT NULL,
    last_seq   bigint NOT NULL,
    PRIMARY KEY (tenant_id, user_id)
) WITH (fillfactor = 50);
COMMENT ON TABLE user_streams IS 'The last number in the stream of events of a user.';

-- The first number of `wanted` new ones.
CREATE FUNCTION next_user_seq(the_tenant uuid, the_user uuid, wanted integer) RETURNS bigint LANGUAGE sql AS $$
    INSERT INTO user_streams AS stream (tenant_id, user_id, last_seq) VALUES (the_tenant, the_user, wanted)
    ON CONFLICT (tenant_id, user_id) DO UPDATE SET last_seq = stream.last_seq + wanted
    RETURNING last_seq - wanted + 1
$$;

-- The time of an event. Its transaction has a number before the clock is read: a reader that knows the oldest transaction
-- with a number then knows that no earlier event can still be committed. PostgreSQL puts this expression in place of a
-- call, and evaluates the condition first.
CREATE FUNCTION event_time() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$
    SELECT CASE WHEN pg_current_xact_id() IS NOT NULL THEN clock_timestamp() END
$$;

CREATE TABLE job_events (
    tenant_id    uuid NOT NULL,
    job_id       uuid NOT NULL,
    seq          integer NOT NULL,
    user_id      uuid NOT NULL,
    user_seq     bigint NOT NULL,
    event        text NOT NULL,
    from_status  text,
    to_status    text,
    actor        text NOT NULL,
    reason       text,
    data         jsonb,
    at           timestamptz NOT NULL DEFAULT event_time(),
    request_id   text,
    reported     text,
    PRIMARY KEY (tenant_id, job_id, seq),
    CONSTRAINT job_exists FOREIGN KEY (tenant_id, job_id) REFERENCES ai_jobs (tenant_id, id),
    CONSTRAINT seq_is_positive CHECK (seq > 0)
);
COMMENT ON TABLE job_events IS
    'An event in the history of a job. Both numbers are given out under a row lock in the transaction of the event, so '
    'a reader that has seen one never misses an event that commits later with a smaller number.';
COMMENT ON COLUMN job_events.seq IS 'Number among the events of the job.';
COMMENT ON COLUMN job_events.user_seq IS 'Number in the stream of the user.';
COMMENT ON COLUMN job_events.actor IS 'Who caused it: a user, a worker, an operator or a loop.';
COMMENT ON COLUMN job_events.request_id IS
    'Id of the HTTP request that caused the event, as in the lines of the log. NULL: a loop caused it.';
COMMENT ON COLUMN job_events.reported IS
    'The reason for operators, if the user reads another one: it contains the text of a worker or a provider.';
CREATE UNIQUE INDEX events_of_user ON job_events (tenant_id, user_id, user_seq);
-- The order in which a server of the tenant reads what happened. Each event pays for this index: with the job, the index
-- would be twice as large, and hardly two events of a tenant have the same microsecond.
CREATE INDEX events_of_tenant ON job_events (tenant_id, at);

CREATE TABLE job_traces (
    tenant_id  uuid NOT NULL,
    job_id     uuid NOT NULL,
    seq        integer NOT NULL,
    trace      jsonb NOT NULL,
    PRIMARY KEY (tenant_id, job_id, seq),
    CONSTRAINT job_exists FOREIGN KEY (tenant_id, job_id) REFERENCES ai_jobs (tenant_id, id),
    CONSTRAINT seq_is_positive CHECK (seq > 0),
    CONSTRAINT trace_is_an_object CHECK (jsonb_typeof(trace) = 'object')
);
COMMENT ON TABLE job_traces IS
    'When each part of an attempt happened, as its worker reported it with the end: for the operator''s page of a job.';
COMMENT ON COLUMN job_traces.seq IS 'Number of the event that ended the attempt.';

CREATE TABLE job_descriptions (
    tenant_id    uuid NOT NULL,
    user_id      uuid NOT NULL,
    job_id       uuid NOT NULL,
    title        text NOT NULL,
    input_name   text,
    prompt       text,
    search_text  text COLLATE "C" NOT NULL,
    sent         jsonb,
    -- With the text: a user's texts lie side by side in the index, and a search reads some hundred pages of it instead of
    -- one page of the table for each job.
    PRIMARY KEY (user_id, job_id) INCLUDE (tenant_id, search_text),
    CONSTRAINT search_text_fits_an_index CHECK (octet_length(search_text) <= 2000)
);
COMMENT ON TABLE job_descriptions IS
    'What lists show of a job, and what a search finds it by. It is written with the job, never changed, and deleted '
    'with it. It is not in the row of the job, because each change of status copies that row.';
COMMENT ON COLUMN job_descriptions.title IS 'Name of the effect or the actor when the job was submitted.';
COMMENT ON COLUMN job_descriptions.input_name IS 'Name of the primary input.';
COMMENT ON COLUMN job_descriptions.search_text IS
    'Title, names of the inputs and texts, case-folded and cut to the size that an index can hold.';
COMMENT ON COLUMN job_descriptions.sent IS
    '`input_payload` of a job of an effect, as its user sent it. The payload of the job is what an engine gets.';

CREATE TABLE retry_keys (
    tenant_id        uuid NOT NULL,
    user_id          uuid NOT NULL,
    idempotency_key  text NOT NULL,
    retried_id       uuid NOT NULL,
    created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (idempotency_key, tenant_id, user_id),
    CONSTRAINT wallet_exists FOREIGN KEY (tenant_id, user_id) REFERENCES token_wallets (tenant_id, owner_id),
    CONSTRAINT idempotency_key_is_a_line CHECK (idempotency_key ~ '^[^\x01-\x1f\x7f]{1,200}$')
);
COMMENT ON TABLE retry_keys IS
    'The idempotency keys of retries. A key is written with the charge cycle that it started, so that a request that is '
    'sent again does not start another one.';
COMMENT ON COLUMN retry_keys.user_id IS 'The user who is charged.';
COMMENT ON COLUMN retry_keys.retried_id IS 'The job, or the batch whose jobs were retried.';

CREATE UNLOGGED TABLE job_progress (
    tenant_id     uuid NOT NULL,
    job_id        uuid NOT NULL,
    user_id       uuid NOT NULL,
    charge_cycle  integer NOT NULL,
    lease_seq     bigint NOT NULL,
    percent       double precision,
    message       text,
    elapsed_ms    bigint,
    updated_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    preview       bytea,
    preview_type  text,
    preview_at    timestamptz,
    node_id       text,
    PRIMARY KEY (tenant_id, job_id),
    CONSTRAINT percent_is_in_range CHECK (percent BETWEEN 0 AND 100),
    CONSTRAINT elapsed_ms_is_not_negative CHECK (elapsed_ms >= 0),
    CONSTRAINT preview_is_small CHECK (length(preview) <= 65536),
    CONSTRAINT preview_is_whole CHECK (num_nulls(preview, preview_type, preview_at) IN (0, 3))
) WITH (fillfactor = 50);
COMMENT ON TABLE job_progress IS
    'The last progress of a job that runs. It is never replayed, so it need not survive a crash of the database. It is '
    'not in the row of the job, which each heartbeat would copy.';
COMMENT ON COLUMN job_progress.elapsed_ms IS 'Since the engine started, as the worker reported it.';
COMMENT ON COLUMN job_progress.node_id IS
    'The node of the graph that runs now. Empty: no node runs. NULL: the worker does not report it.';
CREATE INDEX progress_of_user ON job_progress (user_id);

-- How much of a run was spent, from 0 to 1: what its worker last reported, or where that is more, the share of the run
-- limit that has passed. Time counts from when the engine started, as the worker reported: the time in the queue of the
-- engine does not count. Actors of tasks do not report that; their time counts from the lease.
CREATE FUNCTION job_spent(
    the_tenant uuid, the_job uuid, the_cycle integer, the_lease bigint, since timestamptz, run_limit_seconds integer,
    is_task boolean
) RETURNS numeric LANGUAGE sql STABLE AS $$
    SELECT least(1, greatest(0, reported.percent::numeric / 100, CASE
        WHEN reported.elapsed_ms IS NOT NULL
        THEN reported.elapsed_ms / 1000.0 + extract(epoch FROM clock_timestamp() - reported.updated_at)
        WHEN is_task THEN extract(epoch FROM clock_timestamp() - since)
        END / run_limit_seconds))
    FROM (SELECT) job LEFT JOIN (
        SELECT percent, elapsed_ms, updated_at FROM job_progress
        WHERE tenant_id = the_tenant AND job_id = the_job AND charge_cycle = the_cycle AND lease_seq = the_lease
    ) reported ON true
$$;

CREATE TABLE outbox (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id     uuid NOT NULL,
    job_id        uuid NOT NULL,
    charge_cycle  integer NOT NULL,
    action        text NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT one_entry_per_action UNIQUE (tenant_id, job_id, charge_cycle, action),
    CONSTRAINT job_exists FOREIGN KEY (tenant_id, job_id) REFERENCES ai_jobs (tenant_id, id),
    CONSTRAINT action_is_known CHECK (action IN ('dispatch', 'close'))
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500);
COMMENT ON TABLE outbox IS
    'Something that central must do for a job. It is relayed right after the commit, and by a loop if that failed.';
COMMENT ON COLUMN outbox.action IS 'dispatch: put the job into the queue. close: remove it from there.';

CREATE TABLE retention_marks (
    name          text PRIMARY KEY,
    completed_at  timestamptz NOT NULL,
    id            uuid NOT NULL
);
COMMENT ON TABLE retention_marks IS
    'Up to which job a table was cleared of old rows, where some of its old rows stay.';
