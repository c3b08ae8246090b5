-- What operators see and do: statistics, alerts, and actions on many jobs.

-- The bucket of a histogram that a duration is in. Buckets grow by a quarter, from 0.05 seconds to 18 hours.
CREATE FUNCTION histogram_bucket(seconds double precision) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN least(63, greatest(0, floor(ln(greatest(seconds, 0.05) / 0.05) / ln(1.25))))::integer;

-- The 64 counts of a histogram.
CREATE FUNCTION histogram(seconds double precision[]) RETURNS integer[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN ARRAY (
    SELECT coalesce(counted.number, 0)::integer
    FROM generate_series(0, 63) AS bucket
    LEFT JOIN (
        SELECT histogram_bucket(each) AS bucket, count(*) AS number FROM unnest(seconds) AS each
        WHERE each IS NOT NULL GROUP BY 1
    ) counted USING (bucket)
    ORDER BY bucket);

CREATE TABLE finished_jobs_by_time (
    step_seconds  integer NOT NULL,
    at            timestamptz NOT NULL,
    workflow_id   bigint NOT NULL,
    completed     integer NOT NULL,
    failed        integer NOT NULL,
    canceled      integer NOT NULL,
    expired       integer NOT NULL,
    waits         integer[] NOT NULL,
    runs          integer[] NOT NULL,
    PRIMARY KEY (step_seconds, workflow_id, at),
    CONSTRAINT step_seconds_are_known CHECK (step_seconds IN (60, 600, 3600)),
    CONSTRAINT workflow_id_is_not_negative CHECK (workflow_id >= 0),
    CONSTRAINT completed_is_not_negative CHECK (completed >= 0),
    CONSTRAINT failed_is_not_negative CHECK (failed >= 0),
    CONSTRAINT canceled_is_not_negative CHECK (canceled >= 0),
    CONSTRAINT expired_is_not_negative CHECK (expired >= 0),
    CONSTRAINT waits_is_a_histogram CHECK (cardinality(waits) = 64),
    CONSTRAINT runs_is_a_histogram CHECK (cardinality(runs) = 64)
) WITH (fillfactor = 70);
COMMENT ON TABLE finished_jobs_by_time IS
    'Jobs that finished in a minute, in ten minutes or in an hour, for charts. Each row is counted again until its time '
    'is over, so that a crash or a second control plane counts nothing twice.';
COMMENT ON COLUMN finished_jobs_by_time.workflow_id IS '0: all workflows together.';
COMMENT ON COLUMN finished_jobs_by_time.waits IS 'Histogram of the times in the queue, of jobs that were leased.';
COMMENT ON COLUMN finished_jobs_by_time.runs IS 'Histogram of the times of the last run, of completed jobs.';

CREATE TABLE statistics_progress (
    only_row       boolean PRIMARY KEY DEFAULT true,
    counted_until  timestamptz NOT NULL,
    CONSTRAINT there_is_one_row CHECK (only_row)
);
COMMENT ON TABLE statistics_progress IS 'Until when finished jobs are counted. One row.';

CREATE TABLE queue_samples (
    step_seconds  integer NOT NULL,
    at            timestamptz NOT NULL,
    workflow_id   bigint NOT NULL,
    queued        double precision NOT NULL,
    running       double precision NOT NULL,
    PRIMARY KEY (step_seconds, workflow_id, at),
    CONSTRAINT step_seconds_are_known CHECK (step_seconds IN (60, 600, 3600)),
    CONSTRAINT workflow_id_is_not_negative CHECK (workflow_id >= 0),
    CONSTRAINT queued_is_not_negative CHECK (queued >= 0),
    CONSTRAINT running_is_not_negative CHECK (running >= 0)
) WITH (fillfactor = 70);
COMMENT ON TABLE queue_samples IS
    'How many jobs of a workflow were queued and running: a sample of a minute, or the mean of longer steps.';
COMMENT ON COLUMN queue_samples.workflow_id IS '0: all workflows together.';

CREATE TABLE fleet_samples (
    step_seconds      integer NOT NULL,
    at                timestamptz NOT NULL,
    busy_workers      double precision NOT NULL,
    idle_workers      double precision NOT NULL,
    draining_workers  double precision NOT NULL,
    slots             double precision NOT NULL,
    busy_slots        double precision NOT NULL,
    tokens_held       double precision,
    PRIMARY KEY (step_seconds, at),
    CONSTRAINT step_seconds_are_known CHECK (step_seconds IN (60, 600, 3600))
) WITH (fillfactor = 70);
COMMENT ON TABLE fleet_samples IS
    'How many workers there were: a sample of a minute, or the mean of longer steps.';
COMMENT ON COLUMN fleet_samples.slots IS 'Jobs that the live workers can run at once.';
COMMENT ON COLUMN fleet_samples.tokens_held IS 'Tokens that active jobs hold. NULL: a pool was not available.';

CREATE TABLE worker_hours (
    worker_id      text NOT NULL,
    at             timestamptz NOT NULL,
    busy_minutes   double precision NOT NULL,
    minutes        integer NOT NULL,
    sampled_at     timestamptz NOT NULL,
    session_id     bigint NOT NULL,
    lease_seconds  double precision NOT NULL,
    PRIMARY KEY (worker_id, at),
    CONSTRAINT busy_minutes_are_not_negative CHECK (busy_minutes >= 0),
    CONSTRAINT minutes_are_positive CHECK (minutes > 0)
) WITH (fillfactor = 70);
COMMENT ON TABLE worker_hours IS
    'How busy a worker was in an hour. A minute is added once, by the control plane that samples it.';
COMMENT ON COLUMN worker_hours.busy_minutes IS
    'The sum of the shares of its slots that were in use, one share per sampled minute.';
COMMENT ON COLUMN worker_hours.lease_seconds IS
    'At the last sample: the sum of the seconds of all leases of the session. The next sample adds the difference, so '
    'that leases between two samples count.';
CREATE INDEX worker_hours_at ON worker_hours USING brin (at) WITH (pages_per_range = 16);

CREATE TABLE calls_by_provider (
    at         timestamptz NOT NULL,
    provider   text NOT NULL,
    calls      bigint NOT NULL,
    completed  integer NOT NULL,
    failed     integer NOT NULL,
    PRIMARY KEY (at, provider),
    CONSTRAINT provider_is_not_empty CHECK (provider <> ''),
    CONSTRAINT calls_are_not_negative CHECK (calls >= 0),
    CONSTRAINT completed_is_not_negative CHECK (completed >= 0),
    CONSTRAINT failed_is_not_negative CHECK (failed >= 0)
) WITH (fillfactor = 70);
COMMENT ON TABLE calls_by_provider IS
    'Calls of a provider whose dispatches ended in the ten minutes from `at`. Each row is counted again from the '
    'history until its time is over, so that a crash or a second control plane counts nothing twice.';
COMMENT ON COLUMN calls_by_provider.calls IS 'Attempts of all these dispatches.';

CREATE TABLE calls_by_provider_progress (
    only_row       boolean PRIMARY KEY DEFAULT true,
    counted_until  timestamptz NOT NULL,
    CONSTRAINT there_is_one_row CHECK (only_row)
);
COMMENT ON TABLE calls_by_provider_progress IS 'Until when calls are counted. One row.';

CREATE TABLE alerts (
    process   text NOT NULL,
    code      text NOT NULL,
    subject   text NOT NULL,
    severity  text NOT NULL,
    message   text NOT NULL,
    action    text NOT NULL,
    since     timestamptz NOT NULL,
    seen_at   timestamptz NOT NULL,
    sent_at   timestamptz,
    PRIMARY KEY (process, code, subject),
    CONSTRAINT severity_is_known CHECK (severity IN ('critical', 'warning'))
);
COMMENT ON TABLE alerts IS 'An alert that is true now.';
COMMENT ON COLUMN alerts.process IS
    'The process that found it, for example in its loops. Empty: an alert of the installation.';
COMMENT ON COLUMN alerts.subject IS 'What the alert is about, for example a worker.';
COMMENT ON COLUMN alerts.action IS 'What an operator can do.';
COMMENT ON COLUMN alerts.sent_at IS
    'When the messages about its start were written. NULL: not yet, or no recipient is configured.';

CREATE TABLE alert_checks (
    only_row    boolean PRIMARY KEY DEFAULT true,
    number      bigint NOT NULL,
    started_at  timestamptz NOT NULL,
    CONSTRAINT there_is_one_row CHECK (only_row)
);
COMMENT ON TABLE alert_checks IS
    'The last check, in one row: a process writes what it found only if no other process has started a check since.';

CREATE TABLE alert_messages (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    recipient   text NOT NULL,
    content     jsonb NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    due_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    attempts    integer NOT NULL DEFAULT 0,
    error       text,
    failed_at   timestamptz
);
COMMENT ON TABLE alert_messages IS 'A message about an alert that is not sent yet, or could not be sent.';
COMMENT ON COLUMN alert_messages.recipient IS '`webhook`, or the e-mail address of a recipient.';
CREATE INDEX alert_messages_due ON alert_messages (due_at) WHERE failed_at IS NULL;

CREATE TABLE bulk_actions (
    id                uuid PRIMARY KEY,
    action            text NOT NULL,
    priority          integer,
    filter            jsonb NOT NULL,
    reason            text,
    created_by        uuid NOT NULL,
    created_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    state             text NOT NULL DEFAULT 'running',
    stopped_by        uuid,
    finished_at       timestamptz,
    is_collected      boolean NOT NULL DEFAULT false,
    total             bigint NOT NULL DEFAULT 0,
    done              bigint NOT NULL DEFAULT 0,
    refused           bigint NOT NULL DEFAULT 0,
    refusals          jsonb NOT NULL DEFAULT '[]',
    is_counted        boolean NOT NULL DEFAULT false,
    is_cleared        boolean NOT NULL DEFAULT false,
    lease_token       uuid,
    lease_expires_at  timestamptz,
    idempotency_key   text,
    CONSTRAINT one_bulk_action_per_key UNIQUE (created_by, idempotency_key),
    CONSTRAINT idempotency_key_is_a_line CHECK (idempotency_key ~ '^[^\x01-\x1f\x7f]{1,200}$'),
    CONSTRAINT action_is_known CHECK (action IN ('retry', 'cancel', 'set_priority')),
    CONSTRAINT state_is_known CHECK (state IN ('running', 'stopped', 'completed')),
    CONSTRAINT set_priority_has_a_priority CHECK ((action = 'set_priority') = (priority IS NOT NULL)),
    CONSTRAINT running_means_not_finished CHECK ((state = 'running') = (finished_at IS NULL)),
    CONSTRAINT stopped_means_by_a_user CHECK ((state = 'stopped') = (stopped_by IS NOT NULL))
);
COMMENT ON TABLE bulk_actions IS
    'An action of an operator on many jobs, and its progress. The jobs are in the pools, in `bulk_action_jobs`.';
COMMENT ON COLUMN bulk_actions.filter IS
    'As in the API. Only jobs that were created before `created_at` are changed.';
COMMENT ON COLUMN bulk_actions.is_collected IS 'Whether all jobs that the filter matches were found.';
COMMENT ON COLUMN bulk_actions.total IS 'Jobs that were found, as of the last count, like the next three columns.';
COMMENT ON COLUMN bulk_actions.is_counted IS 'False: the last jobs may be missing in the counts.';
COMMENT ON COLUMN bulk_actions.is_cleared IS 'False: its jobs are still in the pools, for the counts.';
COMMENT ON COLUMN bulk_actions.lease_token IS 'The control plane that works on it.';
COMMENT ON COLUMN bulk_actions.idempotency_key IS
    'From the request that started it: a repeated request with this key starts no second action.';
CREATE INDEX bulk_actions_with_work ON bulk_actions (lease_expires_at, id) WHERE NOT is_counted;
CREATE INDEX bulk_actions_to_clear ON bulk_actions (finished_at) WHERE is_counted AND NOT is_cleared;
