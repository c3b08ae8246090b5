-- Calls of providers that call back.

CREATE TABLE provider_calls (
    call_id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id          uuid NOT NULL,
    job_id             uuid NOT NULL,
    charge_cycle       integer NOT NULL,
    dispatch_id        bigint NOT NULL,
    lease_seq          bigint NOT NULL,
    provider           text NOT NULL,
    callback_hash      bytea NOT NULL,
    hand_overs         integer NOT NULL DEFAULT 1,
    work               text DEFAULT 'follow',
    next_at            timestamptz,
    claims             bigint NOT NULL DEFAULT 0,
    failures           integer NOT NULL DEFAULT 0,
    prediction         jsonb,
    reported_at        timestamptz,
    strays             text[] NOT NULL DEFAULT '{}',
    refused_callbacks  integer NOT NULL DEFAULT 0,
    last_refusal       text,
    last_error         text,
    created_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at           timestamptz,
    CONSTRAINT one_call_per_dispatch UNIQUE (dispatch_id),
    CONSTRAINT one_call_per_callback UNIQUE (callback_hash),
    CONSTRAINT one_call_per_cycle UNIQUE (tenant_id, job_id, charge_cycle),
    CONSTRAINT tenant_exists FOREIGN KEY (tenant_id) REFERENCES tenants (id),
    CONSTRAINT charge_cycle_is_positive CHECK (charge_cycle > 0),
    CONSTRAINT provider_is_not_empty CHECK (provider <> ''),
    CONSTRAINT callback_hash_is_sha256 CHECK (length(callback_hash) = 32),
    CONSTRAINT hand_overs_are_positive CHECK (hand_overs > 0),
    CONSTRAINT work_is_known CHECK (work IN ('follow', 'collect', 'cancel')),
    CONSTRAINT strays_are_few CHECK (cardinality(strays) <= 8),
    CONSTRAINT work_has_a_time CHECK ((work IS NULL) = (next_at IS NULL)),
    CONSTRAINT ended_means_no_work CHECK ((work IS NULL) = (ended_at IS NOT NULL)),
    CONSTRAINT collecting_needs_a_prediction CHECK (work IS DISTINCT FROM 'collect' OR prediction IS NOT NULL)
) WITH (fillfactor = 70);
COMMENT ON TABLE provider_calls IS
    'A call of a provider that calls back, one per job and charge cycle. It is written before the provider is called.';
COMMENT ON COLUMN provider_calls.lease_seq IS 'Number of the lease that was last handed over.';
COMMENT ON COLUMN provider_calls.callback_hash IS
    'SHA-256 of the id in the URL of the callback. The id is derived from the secret key of the installation: a reader '
    'of this table cannot call back.';
COMMENT ON COLUMN provider_calls.hand_overs IS
    'How often the job was given to a worker. From the second time on, the provider may know it already.';
COMMENT ON COLUMN provider_calls.work IS
    'What is done next. follow: wait for the callback, and ask the provider from time to time. collect: fetch the '
    'result. cancel: cancel it at the provider. NULL: nothing.';
COMMENT ON COLUMN provider_calls.claims IS
    'Raised by each claim of the work. A control plane that lost its claim writes nothing.';
COMMENT ON COLUMN provider_calls.failures IS 'Failures of the present work in a row.';
COMMENT ON COLUMN provider_calls.prediction IS
    'The last report of the provider, with URLs that expire. They are removed when the call has ended.';
COMMENT ON COLUMN provider_calls.strays IS
    'Ids at the provider whose reports came too late. They are canceled at the provider.';
CREATE INDEX provider_calls_due ON provider_calls (provider, work, next_at) WHERE work IS NOT NULL;
-- For the sweeper.
CREATE INDEX provider_calls_ended ON provider_calls (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE provider_callbacks (
    call_id           bigint NOT NULL,
    delivery_id       text NOT NULL,
    status            text NOT NULL,
    outcome           text NOT NULL,
    deliveries        integer NOT NULL DEFAULT 1,
    received_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_received_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (call_id, delivery_id),
    CONSTRAINT call_exists FOREIGN KEY (call_id) REFERENCES provider_calls (call_id) ON DELETE CASCADE,
    CONSTRAINT outcome_is_known CHECK (outcome IN ('taken', 'late'))
);
COMMENT ON TABLE provider_callbacks IS 'A verified callback that reported an end. Repeated deliveries are counted.';
COMMENT ON COLUMN provider_callbacks.status IS 'The status that the provider reported.';
COMMENT ON COLUMN provider_callbacks.outcome IS 'taken: it was used. late: the call had ended before.';

CREATE TABLE provider_breakers (
    provider           text PRIMARY KEY,
    failures           integer NOT NULL DEFAULT 0,
    open_until         timestamptz,
    pause_seconds      double precision,
    trial_dispatch_id  bigint,
    trial_lease_seq    bigint,
    trial_until        timestamptz,
    last_error         text,
    last_error_at      timestamptz,
    dispatches         bigint[] NOT NULL DEFAULT '{}',
    tenants            uuid[] NOT NULL DEFAULT '{}',
    shut_for           uuid,
    CONSTRAINT provider_is_not_empty CHECK (provider <> ''),
    CONSTRAINT failures_are_not_negative CHECK (failures >= 0),
    CONSTRAINT pause_seconds_are_positive CHECK (pause_seconds > 0),
    CONSTRAINT open_means_a_pause CHECK ((open_until IS NULL) = (pause_seconds IS NULL)),
    CONSTRAINT trial_is_whole CHECK ((trial_dispatch_id IS NULL) = (trial_lease_seq IS NULL)),
    CONSTRAINT trial_needs_a_pause CHECK (trial_dispatch_id IS NULL OR open_until IS NOT NULL)
) WITH (fillfactor = 50);
COMMENT ON TABLE provider_breakers IS
    'Whether a provider is called. Closed: `open_until` is NULL. Open: it is in the future, and the provider is not '
    'called. Half open: it has passed, and one call may try.';
COMMENT ON COLUMN provider_breakers.failures IS 'Failures in a row.';
COMMENT ON COLUMN provider_breakers.trial_dispatch_id IS
    'The call that tries. It lives as long as its lease, or until `trial_until` if it has none.';
COMMENT ON COLUMN provider_breakers.dispatches IS
    'The dispatches of the failures in a row: each counts once, however often it was tried.';
COMMENT ON COLUMN provider_breakers.tenants IS
    'The tenants of the failures in a row: the provider is paused for all tenants only if calls of several failed.';
COMMENT ON COLUMN provider_breakers.shut_for IS 'The only tenant that the pause is for. NULL: it is for all.';
