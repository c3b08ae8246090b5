-- Webhooks to users: where the events of jobs are sent, and each event that is to be sent or was sent.

CREATE TABLE webhook_endpoints (
    tenant_id            uuid NOT NULL,
    id                   uuid NOT NULL,
    user_id              uuid NOT NULL,
    scope                text NOT NULL,
    url                  text NOT NULL,
    description          text NOT NULL,
    events               text[] NOT NULL,
    effect_ids           uuid[] NOT NULL,
    client_references    text[] NOT NULL,
    is_enabled           boolean NOT NULL DEFAULT true,
    sealed_secret        bytea NOT NULL,
    sealed_old_secret    bytea,
    old_secret_until     timestamptz,
    sealed_with          text NOT NULL,
    created_at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    failures             integer NOT NULL DEFAULT 0,
    failing_since        timestamptz,
    last_error           text,
    paused_until         timestamptz,
    disabled_at          timestamptz,
    disabled_reason      text,
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT tenant_is_in_this_pool FOREIGN KEY (tenant_id) REFERENCES pool_tenants (tenant_id),
    CONSTRAINT scope_is_known CHECK (scope IN ('user', 'tenant')),
    CONSTRAINT url_is_not_empty CHECK (url <> ''),
    CONSTRAINT it_has_events CHECK (cardinality(events) > 0),
    CONSTRAINT failures_are_not_negative CHECK (failures >= 0),
    CONSTRAINT failing_means_a_time CHECK ((failures > 0) = (failing_since IS NOT NULL)),
    CONSTRAINT disabled_means_a_reason CHECK ((disabled_at IS NULL) = (disabled_reason IS NULL)),
    CONSTRAINT old_secret_has_an_end CHECK ((sealed_old_secret IS NULL) = (old_secret_until IS NULL))
) WITH (fillfactor = 70);
COMMENT ON TABLE webhook_endpoints IS 'A URL of a user to which events of jobs are sent.';
COMMENT ON COLUMN webhook_endpoints.user_id IS 'Who created it.';
COMMENT ON COLUMN webhook_endpoints.scope IS '`user`: jobs of this user. `tenant`: all jobs of the tenant.';
COMMENT ON COLUMN webhook_endpoints.effect_ids IS 'Only jobs of these effects. Empty: all jobs.';
COMMENT ON COLUMN webhook_endpoints.client_references IS 'Only jobs with one of these references. Empty: all jobs.';
COMMENT ON COLUMN webhook_endpoints.is_enabled IS 'False: its user switched it off, and no event is written for it.';
COMMENT ON COLUMN webhook_endpoints.sealed_secret IS 'Signs each request. Encrypted with the secret key.';
COMMENT ON COLUMN webhook_endpoints.sealed_old_secret IS 'Signs too, until `old_secret_until`.';
COMMENT ON COLUMN webhook_endpoints.sealed_with IS 'Fingerprint of the secret key.';
COMMENT ON COLUMN webhook_endpoints.failures IS 'Requests in a row that were not accepted.';
COMMENT ON COLUMN webhook_endpoints.paused_until IS 'Nothing is sent before, because it failed several times in a row.';
COMMENT ON COLUMN webhook_endpoints.disabled_at IS
    'When it was switched off because it failed for too long. Its events are written and not sent.';

CREATE TABLE webhook_deliveries (
    number           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id        uuid NOT NULL,
    endpoint_id      uuid NOT NULL,
    job_id           uuid,
    event            text NOT NULL,
    body             jsonb NOT NULL,
    created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    queued_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    due_at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    attempts         integer NOT NULL DEFAULT 0,
    attempted_at     timestamptz,
    status           text NOT NULL DEFAULT 'waiting',
    ended_at         timestamptz,
    response_status  integer,
    response_text    text,
    error            text,
    milliseconds     integer,
    CONSTRAINT status_is_known CHECK (status IN ('waiting', 'delivered', 'given_up')),
    CONSTRAINT ended_means_a_time CHECK ((status = 'waiting') = (ended_at IS NULL)),
    CONSTRAINT response_is_short CHECK (length(response_text) <= 4096)
    -- Half of the changes leave the indexes alone.
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
COMMENT ON TABLE webhook_deliveries IS
    'An event for one endpoint, written in the transaction of the change that it reports, with the last attempt to send it.';
COMMENT ON COLUMN webhook_deliveries.number IS 'Order of the events of a job, which are written under the lock of the job.';
COMMENT ON COLUMN webhook_deliveries.job_id IS 'NULL: a test.';
COMMENT ON COLUMN webhook_deliveries.body IS 'What is sent.';
COMMENT ON COLUMN webhook_deliveries.queued_at IS 'When it was written, or sent again by its user. It is given up a day later.';
COMMENT ON COLUMN webhook_deliveries.due_at IS 'Time of the next attempt. While it is sent: when another process may send it.';
COMMENT ON COLUMN webhook_deliveries.response_text IS 'The first 4 kB of the last response.';
-- The endpoint is not a foreign key: each event would lock the row of its endpoint.
CREATE INDEX due_deliveries ON webhook_deliveries (endpoint_id, due_at) WHERE status = 'waiting';
CREATE INDEX waiting_deliveries_of_job ON webhook_deliveries (endpoint_id, job_id, number) WHERE status = 'waiting';
CREATE INDEX deliveries_of_endpoint ON webhook_deliveries (endpoint_id, number DESC);
CREATE INDEX waiting_deliveries_by_age ON webhook_deliveries (queued_at) WHERE status = 'waiting';
CREATE INDEX deliveries_by_age ON webhook_deliveries (created_at);

-- Writes the event of a job's change for each endpoint that wants it, in the transaction of the change. VOLATILE, so that
-- it reads the job as the calling statement has written it. The caller looks first whether the tenant has endpoints.
CREATE FUNCTION deliveries_write(the_tenant uuid, the_job uuid) RETURNS void LANGUAGE sql VOLATILE AS $$
    INSERT INTO webhook_deliveries (tenant_id, endpoint_id, job_id, event, body)
    SELECT job.tenant_id, endpoint.id, job.id, job.event, jsonb_build_object(
        'type', job.event,
        'timestamp', to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
        'data', jsonb_strip_nulls(jsonb_build_object(
            'id', job.id, 'user_id', job.user_id, 'kind', job.kind, 'status', job.status, 'effect_id', job.effect_id,
            'run_id', job.run_id, 'video_id', job.video_id, 'client_reference', job.client_reference, 'cost', job.cost,
            'charge_cycle', job.charge_cycle, 'output_file_id', job.output_file_id, 'error_type', job.error ->> 'type',
            'created_at', job.created_at, 'started_at', job.started_at, 'completed_at', job.completed_at)))
    FROM (
        SELECT tenant_id, id, user_id, kind, status, effect_id, run_id, video_id, client_reference, cost, charge_cycle,
            output_file_id, error, created_at, started_at, completed_at,
            'job.' || CASE status WHEN 'pending' THEN 'accepted' WHEN 'processing' THEN 'started' ELSE status END AS event
        FROM ai_jobs WHERE tenant_id = the_tenant AND id = the_job
    ) job
    JOIN webhook_endpoints endpoint ON endpoint.tenant_id = job.tenant_id AND endpoint.is_enabled
        AND (endpoint.scope = 'tenant' OR endpoint.user_id = job.user_id) AND job.event = ANY (endpoint.events)
        AND (endpoint.effect_ids = '{}' OR job.effect_id = ANY (endpoint.effect_ids))
        AND (endpoint.client_references = '{}' OR job.client_reference = ANY (endpoint.client_references))
$$;
