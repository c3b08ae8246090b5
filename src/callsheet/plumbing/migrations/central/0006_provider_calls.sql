-- Calls of providers that call back: one per job and charge cycle, written before the provider is called.
CREATE TABLE provider_calls (
    call_id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id          uuid NOT NULL REFERENCES tenants (id),
    job_id             uuid NOT NULL,
    charge_cycle       integer NOT NULL CHECK (charge_cycle > 0),
    dispatch_id        bigint NOT NULL UNIQUE,
    -- Of the lease it was last handed over with.
    lease_seq          bigint NOT NULL,
    provider           text NOT NULL CHECK (provider <> ''),
    -- The id in the callback's address is derived from the installation's secret; whoever reads this table cannot call.
    callback_hash      bytea NOT NULL UNIQUE CHECK (length(callback_hash) = 32),
    -- From the second on, the provider may know it already.
    hand_overs         integer NOT NULL DEFAULT 1 CHECK (hand_overs > 0),
    -- What is to be done about it next, and when: wait for the callback and ask now and then, fetch what was made, cancel
    -- it at the provider. Null once nothing is.
    work               text DEFAULT 'follow' CHECK (work IN ('follow', 'collect', 'cancel')),
    next_at            timestamptz,
    -- Each claim is one more: who lost its claim writes nothing.
    claims             bigint NOT NULL DEFAULT 0,
    -- Of the present work, in a row.
    failures           integer NOT NULL DEFAULT 0,
    -- The provider's last word, with addresses that expire; without them once the call has ended.
    prediction         jsonb,
    reported_at        timestamptz,
    -- What workers submitted whose report came too late: nobody waits for it, and it is canceled at the provider.
    strays             text[] NOT NULL DEFAULT '{}' CHECK (cardinality(strays) <= 8),
    refused_callbacks  integer NOT NULL DEFAULT 0,
    last_refusal       text,
    last_error         text,
    created_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at           timestamptz,
    UNIQUE (tenant_id, job_id, charge_cycle),
    CHECK ((work IS NULL) = (next_at IS NULL)),
    CHECK ((work IS NULL) = (ended_at IS NOT NULL)),
    CHECK (work IS DISTINCT FROM 'collect' OR prediction IS NOT NULL)
) WITH (fillfactor = 70);
CREATE INDEX provider_calls_due ON provider_calls (provider, work, next_at) WHERE work IS NOT NULL;
-- For the sweeper.
CREATE INDEX provider_calls_ended ON provider_calls (ended_at) WHERE ended_at IS NOT NULL;

-- Verified callbacks that said how it ended, one line per delivery; redeliveries are counted.
CREATE TABLE provider_callbacks (
    call_id           bigint NOT NULL REFERENCES provider_calls (call_id) ON DELETE CASCADE,
    delivery_id       text NOT NULL,
    status            text NOT NULL,
    outcome           text NOT NULL CHECK (outcome IN ('taken', 'late')),
    deliveries        integer NOT NULL DEFAULT 1,
    received_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_received_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (call_id, delivery_id)
);

-- Whether a provider is called at all. Closed: open_until is null. Open: it lies ahead, and nobody calls. Half open: it has
-- passed, and one call may try; that call is alive while its lease is, or until trial_until where there is no lease.
CREATE TABLE provider_breakers (
    provider           text PRIMARY KEY CHECK (provider <> ''),
    -- In a row.
    failures           integer NOT NULL DEFAULT 0 CHECK (failures >= 0),
    open_until         timestamptz,
    pause_seconds      double precision CHECK (pause_seconds > 0),
    trial_dispatch_id  bigint,
    trial_lease_seq    bigint,
    trial_until        timestamptz,
    last_error         text,
    last_error_at      timestamptz,
    CHECK ((open_until IS NULL) = (pause_seconds IS NULL)),
    CHECK ((trial_dispatch_id IS NULL) = (trial_lease_seq IS NULL)),
    CHECK (trial_dispatch_id IS NULL OR open_until IS NOT NULL)
) WITH (fillfactor = 50);
