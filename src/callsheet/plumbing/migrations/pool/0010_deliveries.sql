-- Webhooks to users: where events of jobs, runs and wallets are sent, and each event that is to be sent or was sent.

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
    low_balance          bigint NOT NULL DEFAULT 100,
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
    is_full              boolean NOT NULL DEFAULT false,
    enabled_at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    mail_due_at          timestamptz,
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT tenant_is_in_this_pool FOREIGN KEY (tenant_id) REFERENCES pool_tenants (tenant_id),
    CONSTRAINT scope_is_known CHECK (scope IN ('user', 'tenant', 'job')),
    CONSTRAINT url_is_not_empty CHECK (url <> ''),
    CONSTRAINT it_has_events CHECK (cardinality(events) > 0),
    CONSTRAINT low_balance_is_positive CHECK (low_balance > 0),
    CONSTRAINT failures_are_not_negative CHECK (failures >= 0),
    CONSTRAINT failing_means_a_time CHECK ((failures > 0) = (failing_since IS NOT NULL)),
    CONSTRAINT disabled_means_a_reason CHECK ((disabled_at IS NULL) = (disabled_reason IS NULL)),
    CONSTRAINT full_means_disabled CHECK (disabled_at IS NOT NULL OR NOT is_full),
    CONSTRAINT old_secret_has_an_end CHECK ((sealed_old_secret IS NULL) = (old_secret_until IS NULL))
) WITH (fillfactor = 70);
COMMENT ON TABLE webhook_endpoints IS 'A URL of a user to which events are sent.';
COMMENT ON COLUMN webhook_endpoints.user_id IS 'Who created it.';
COMMENT ON COLUMN webhook_endpoints.scope IS
    '`user`: events of this user. `tenant`: all events of the tenant. `job`: jobs of this user with a webhook_url that '
    'starts with the URL.';
COMMENT ON COLUMN webhook_endpoints.effect_ids IS 'Only jobs of these effects. Empty: all jobs.';
COMMENT ON COLUMN webhook_endpoints.client_references IS 'Only jobs with one of these references. Empty: all jobs.';
COMMENT ON COLUMN webhook_endpoints.low_balance IS '`wallet.low` is written when a balance falls below it.';
COMMENT ON COLUMN webhook_endpoints.is_enabled IS 'False: its user switched it off, and no event is written for it.';
COMMENT ON COLUMN webhook_endpoints.sealed_secret IS 'Signs each request. Encrypted with the secret key.';
COMMENT ON COLUMN webhook_endpoints.sealed_old_secret IS 'Signs too, until `old_secret_until`.';
COMMENT ON COLUMN webhook_endpoints.sealed_with IS 'Fingerprint of the secret key.';
COMMENT ON COLUMN webhook_endpoints.failures IS 'Requests in a row that were not accepted.';
COMMENT ON COLUMN webhook_endpoints.paused_until IS 'Nothing is sent before, because it failed several times in a row.';
COMMENT ON COLUMN webhook_endpoints.disabled_at IS
    'When it was switched off because it failed for too long. Its events are written and not sent.';
COMMENT ON COLUMN webhook_endpoints.is_full IS 'Too many events wait: it is disabled, and no more are written.';
COMMENT ON COLUMN webhook_endpoints.enabled_at IS 'For an hour after it, twice as many events may wait.';
COMMENT ON COLUMN webhook_endpoints.mail_due_at IS 'When its user gets a mail that it was disabled. NULL: none is due.';
CREATE INDEX endpoints_with_a_mail ON webhook_endpoints (mail_due_at) WHERE mail_due_at IS NOT NULL;

CREATE TABLE webhook_deliveries (
    number           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id        uuid NOT NULL,
    endpoint_id      uuid NOT NULL,
    subject_id       uuid,
    event            text NOT NULL,
    url              text,
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
COMMENT ON COLUMN webhook_deliveries.number IS
    'Order of the events of a subject, which are written under the lock of its row.';
COMMENT ON COLUMN webhook_deliveries.subject_id IS
    'The job, run, batch, user or budget that the event is about: its events are sent in order. NULL: a test.';
COMMENT ON COLUMN webhook_deliveries.url IS 'The `webhook_url` of the job. NULL: the URL of the endpoint.';
COMMENT ON COLUMN webhook_deliveries.body IS 'What is sent.';
COMMENT ON COLUMN webhook_deliveries.queued_at IS 'When it was written, or sent again by its user. It is given up a day later.';
COMMENT ON COLUMN webhook_deliveries.due_at IS 'Time of the next attempt. While it is sent: when another process may send it.';
COMMENT ON COLUMN webhook_deliveries.response_text IS 'The first 4 kB of the last response.';
-- The endpoint is not a foreign key: each event would lock the row of its endpoint.
CREATE INDEX due_deliveries ON webhook_deliveries (endpoint_id, due_at) WHERE status = 'waiting';
CREATE INDEX waiting_deliveries_of_subject ON webhook_deliveries (endpoint_id, subject_id, number)
    WHERE status = 'waiting';
CREATE INDEX deliveries_of_endpoint ON webhook_deliveries (endpoint_id, number DESC);
CREATE INDEX waiting_deliveries_by_age ON webhook_deliveries (queued_at) WHERE status = 'waiting';
CREATE INDEX deliveries_by_age ON webhook_deliveries (created_at);

-- The endpoint that sends events to the webhook_url of a job. A URL of an endpoint ends before a slash or a query, so
-- that https://shop.example.com is not the start of https://shop.example.com.example.org.
CREATE FUNCTION webhook_endpoint_of(the_tenant uuid, the_user uuid, the_url text) RETURNS uuid LANGUAGE sql STABLE AS $$
    SELECT id FROM webhook_endpoints
    WHERE tenant_id = the_tenant AND user_id = the_user AND scope = 'job' AND is_enabled
      AND starts_with(the_url, url)
      AND (right(url, 1) = '/' OR substr(the_url, length(url) + 1, 1) IN ('', '/', '?'))
    ORDER BY length(url) DESC, id LIMIT 1
$$;

-- A time as the API writes it, whatever the time zone of the connection is.
CREATE FUNCTION time_of_event(the_time timestamptz) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT to_char(the_time AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
$$;

-- Writes an event for each endpoint that wants it. Any room calls it in the transaction of the change that the event
-- reports, under the lock of the row that it is about (the_subject). the_effect and the_reference are compared with the
-- filters of the endpoint; wallets and budgets have neither, and no filter applies to them. the_url is the webhook_url
-- of a job.
CREATE FUNCTION deliveries_announce(
    the_tenant uuid, the_user uuid, the_event text, the_subject uuid, the_effect uuid, the_reference text,
    the_data jsonb, the_url text DEFAULT NULL
) RETURNS void LANGUAGE sql VOLATILE AS $$
    INSERT INTO webhook_deliveries (tenant_id, endpoint_id, subject_id, event, url, body)
    SELECT the_tenant, endpoint.id, the_subject, the_event, CASE WHEN endpoint.scope = 'job' THEN the_url END,
        jsonb_build_object('type', the_event,
        'timestamp', time_of_event(clock_timestamp()),
        'data', jsonb_strip_nulls(the_data))
    FROM webhook_endpoints endpoint
    WHERE endpoint.tenant_id = the_tenant AND endpoint.is_enabled AND NOT endpoint.is_full
      AND the_event = ANY (endpoint.events)
      AND CASE endpoint.scope WHEN 'tenant' THEN true WHEN 'user' THEN endpoint.user_id = the_user
          ELSE endpoint.id = webhook_endpoint_of(the_tenant, the_user, the_url) END
      AND (endpoint.effect_ids = '{}' OR the_effect = ANY (endpoint.effect_ids)
          OR the_event IN ('wallet.low', 'budget.reached'))
      AND (endpoint.client_references = '{}' OR the_reference = ANY (endpoint.client_references)
          OR the_event IN ('wallet.low', 'budget.reached'))
      AND (the_event <> 'wallet.low' OR endpoint.low_balance = (the_data ->> 'low_balance')::bigint)
$$;

-- The event of a job's change. VOLATILE, so that it reads the job as the calling statement has written it. The caller
-- looks first whether the tenant has endpoints.
CREATE FUNCTION deliveries_write(the_tenant uuid, the_job uuid) RETURNS void LANGUAGE sql VOLATILE AS $$
    SELECT deliveries_announce(tenant_id, user_id,
        'job.' || CASE status WHEN 'pending' THEN 'accepted' WHEN 'processing' THEN 'started' ELSE status END,
        id, effect_id, client_reference, jsonb_build_object(
            'id', id, 'user_id', user_id, 'kind', kind, 'status', status, 'effect_id', effect_id, 'run_id', run_id,
            'video_id', video_id, 'client_reference', client_reference, 'metadata', metadata, 'cost', cost,
            'charge_cycle', charge_cycle, 'output_file_id', output_file_id, 'error_type', error ->> 'type',
            'created_at', time_of_event(created_at), 'started_at', time_of_event(started_at),
            'completed_at', time_of_event(completed_at)), webhook_url)
    FROM ai_jobs WHERE tenant_id = the_tenant AND id = the_job
$$;

-- A run waits for a person, or has ended.
CREATE FUNCTION run_announce() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM deliveries_announce(NEW.tenant_id, NEW.user_id,
        CASE WHEN NEW.ended_at IS NULL THEN 'run.gate' ELSE 'run.finished' END,
        NEW.id, NULL, NEW.client_reference, jsonb_build_object(
            'id', NEW.id, 'user_id', NEW.user_id, 'pipeline_id', NEW.pipeline_id, 'name', NEW.name,
            'status', NEW.status, 'reason', NEW.reason, 'reason_detail', NEW.reason_detail,
            'client_reference', NEW.client_reference, 'metadata', NEW.metadata, 'candidates', NEW.candidates,
            'spent', NEW.spent, 'budget', NEW.budget, 'created_at', time_of_event(NEW.created_at),
            'ended_at', time_of_event(NEW.ended_at)));
    RETURN NULL;
END $$;
CREATE TRIGGER run_has_ended AFTER UPDATE ON pipeline_runs
    FOR EACH ROW WHEN (OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL) EXECUTE FUNCTION run_announce();
-- A run is examined again while it waits: only the first time is an event.
CREATE TRIGGER run_waits_for_a_person AFTER UPDATE ON pipeline_runs
    FOR EACH ROW WHEN (NEW.ended_at IS NULL AND NEW.reason = 'approval_needed'
        AND (OLD.reason, OLD.reason_detail) IS DISTINCT FROM (NEW.reason, NEW.reason_detail))
    EXECUTE FUNCTION run_announce();

CREATE FUNCTION candidate_announce() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM deliveries_announce(run.tenant_id, run.user_id, 'candidate.created', run.id, step.effect_id,
        run.client_reference, jsonb_build_object(
            'id', NEW.id, 'user_id', run.user_id, 'run_id', run.id, 'number', NEW.number, 'step', step.slug,
            'effect_id', step.effect_id, 'parent_id', NEW.parent_id, 'job_id', NEW.job_id, 'file_id', NEW.file_id,
            'status', NEW.status, 'client_reference', run.client_reference, 'metadata', run.metadata,
            'created_at', time_of_event(NEW.created_at)))
    FROM pipeline_runs run JOIN pipeline_steps step ON step.tenant_id = run.tenant_id AND step.id = NEW.step_id
    WHERE run.tenant_id = NEW.tenant_id AND run.id = NEW.run_id
      AND EXISTS (SELECT FROM webhook_endpoints WHERE tenant_id = NEW.tenant_id);
    RETURN NULL;
END $$;
CREATE TRIGGER candidate_is_new AFTER INSERT ON candidates FOR EACH ROW EXECUTE FUNCTION candidate_announce();

-- Each endpoint has its own limit, so the limits that a balance has crossed are the endpoints that get the event.
CREATE FUNCTION wallet_announce() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    crossed bigint;
BEGIN
    FOR crossed IN
        SELECT DISTINCT low_balance FROM webhook_endpoints
        WHERE tenant_id = NEW.tenant_id AND low_balance > NEW.balance AND low_balance <= OLD.balance
          AND 'wallet.low' = ANY (events)
    LOOP
        PERFORM deliveries_announce(NEW.tenant_id, NEW.owner_id, 'wallet.low', NEW.owner_id, NULL, NULL,
            jsonb_build_object('user_id', nullif(NEW.owner_id, NEW.tenant_id),
                'owner', CASE WHEN NEW.owner_id = NEW.tenant_id THEN 'tenant' ELSE 'user' END,
                'balance', NEW.balance, 'low_balance', crossed));
    END LOOP;
    RETURN NULL;
END $$;
CREATE TRIGGER wallet_is_low AFTER UPDATE OF balance ON token_wallets
    FOR EACH ROW WHEN (NEW.balance < OLD.balance) EXECUTE FUNCTION wallet_announce();
