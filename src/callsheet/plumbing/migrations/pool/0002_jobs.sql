-- Money. Written only by the functions below, which belong to the wallet room.
CREATE TABLE token_wallets (
    tenant_id   uuid NOT NULL REFERENCES pool_tenants (tenant_id),
    user_id     uuid NOT NULL,
    balance     bigint NOT NULL DEFAULT 0 CONSTRAINT wallet_is_never_negative CHECK (balance >= 0),
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, user_id)
) WITH (fillfactor = 70);

-- A user's unit of work. Rows are never deleted.
CREATE TABLE ai_jobs (
    tenant_id               uuid NOT NULL REFERENCES pool_tenants (tenant_id),
    id                      uuid NOT NULL,
    user_id                 uuid NOT NULL,
    kind                    text NOT NULL,
    status                  text NOT NULL CHECK (status IN
                                ('pending', 'queued', 'processing', 'completed', 'failed', 'canceled', 'expired')),
    charge_cycle            integer NOT NULL DEFAULT 1 CHECK (charge_cycle > 0),
    lease_seq               bigint NOT NULL DEFAULT 0 CHECK (lease_seq >= 0),
    event_seq               integer NOT NULL DEFAULT 0,
    cost                    bigint NOT NULL CHECK (cost >= 0),
    workflow_id             bigint NOT NULL,
    stage                   text NOT NULL,
    provider                text NOT NULL,
    concurrency_identifier  text NOT NULL DEFAULT '',
    priority                integer NOT NULL DEFAULT 0,
    max_attempts            integer NOT NULL DEFAULT 3 CHECK (max_attempts > 0),
    lease_seconds           integer NOT NULL DEFAULT 900 CHECK (lease_seconds > 0),
    run_limit_seconds       integer NOT NULL DEFAULT 3600 CHECK (run_limit_seconds > 0),
    lifetime_seconds        integer NOT NULL CHECK (lifetime_seconds > 0),
    payload                 jsonb NOT NULL,
    result                  jsonb,
    provider_job_id         text,
    error                   jsonb,
    idempotency_key         text,
    request_hash            bytea,
    created_at              timestamptz NOT NULL DEFAULT clock_timestamp(),
    submitted_at            timestamptz NOT NULL DEFAULT clock_timestamp(),
    deadline_at             timestamptz NOT NULL,
    started_at              timestamptz,
    completed_at            timestamptz,
    PRIMARY KEY (tenant_id, id),
    -- Only the primary key begins with the tenant. Between indexes that look equally cheap, as all do on an empty table,
    -- the planner takes any, and plans are kept: one took another index by its tenant alone, and read all of its jobs.
    UNIQUE (idempotency_key, tenant_id, user_id),
    FOREIGN KEY (tenant_id, user_id) REFERENCES token_wallets (tenant_id, user_id),
    CHECK ((idempotency_key IS NULL) = (request_hash IS NULL)),
    CHECK ((status IN ('completed', 'failed', 'canceled', 'expired')) = (completed_at IS NOT NULL)),
    CHECK (status <> 'processing' OR lease_seq > 0)
    -- No index names the status, and pages have room for what moves together: two of a job's three changes then leave the
    -- indexes alone (HOT). The table is no larger for it, its indexes are a quarter smaller.
) WITH (fillfactor = 50);
CREATE INDEX jobs_of_user ON ai_jobs (user_id, id);
CREATE INDEX jobs_by_deadline ON ai_jobs (deadline_at) WHERE completed_at IS NULL;
-- After jobs_by_deadline, which would do for it on an empty table too: of equals the planner takes the youngest.
CREATE INDEX jobs_active_of_user ON ai_jobs (tenant_id, user_id) WHERE completed_at IS NULL;

-- The ledger: one line per thing that happened to a wallet. A balance is always the sum of its lines.
CREATE TABLE token_transactions (
    id                       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id                uuid NOT NULL,
    user_id                  uuid NOT NULL,
    type                     text NOT NULL CHECK (type IN
                                 ('PAYMENT_CREDIT', 'JOB_RESERVE', 'JOB_CONSUME', 'JOB_REFUND')),
    amount                   bigint NOT NULL,
    job_id                   uuid,
    charge_cycle             integer,
    provider_transaction_id  text,
    created_at               timestamptz NOT NULL DEFAULT clock_timestamp(),
    FOREIGN KEY (tenant_id, user_id) REFERENCES token_wallets (tenant_id, user_id),
    FOREIGN KEY (tenant_id, job_id) REFERENCES ai_jobs (tenant_id, id),
    UNIQUE (tenant_id, job_id, charge_cycle, type),
    UNIQUE (tenant_id, provider_transaction_id),
    CHECK ((type = 'PAYMENT_CREDIT') = (provider_transaction_id IS NOT NULL)),
    CHECK ((type = 'PAYMENT_CREDIT') = (job_id IS NULL)),
    CHECK ((job_id IS NULL) = (charge_cycle IS NULL)),
    CHECK (CASE type WHEN 'PAYMENT_CREDIT' THEN amount > 0
                     WHEN 'JOB_RESERVE' THEN amount <= 0
                     WHEN 'JOB_CONSUME' THEN amount = 0
                     ELSE amount >= 0 END)
);
-- Consumed or refunded, never both.
CREATE UNIQUE INDEX one_settlement_per_cycle ON token_transactions (tenant_id, job_id, charge_cycle)
    WHERE type IN ('JOB_CONSUME', 'JOB_REFUND');
CREATE INDEX transactions_of_user ON token_transactions (tenant_id, user_id, id DESC);

-- Takes the wallet's row lock, opening the wallet on first use, and answers the balance. The lock is also the lock per
-- user that guards count-then-insert.
CREATE FUNCTION wallet_lock(the_tenant uuid, the_user uuid) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    found_balance bigint;
BEGIN
    SELECT balance INTO found_balance FROM token_wallets
        WHERE tenant_id = the_tenant AND user_id = the_user FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        INSERT INTO token_wallets (tenant_id, user_id) VALUES (the_tenant, the_user) ON CONFLICT DO NOTHING;
        SELECT balance INTO found_balance FROM token_wallets
            WHERE tenant_id = the_tenant AND user_id = the_user FOR NO KEY UPDATE;
    END IF;
    RETURN found_balance;
END $$;

-- The one way money moves: a line and the balance together. wallet_is_never_negative refuses an overdraft.
CREATE FUNCTION wallet_move(
    the_tenant uuid, the_user uuid, the_type text, the_amount bigint,
    the_job uuid, the_cycle integer, the_payment text
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    new_balance bigint;
BEGIN
    IF the_amount <> 0 THEN
        UPDATE token_wallets SET balance = balance + the_amount
            WHERE tenant_id = the_tenant AND user_id = the_user RETURNING balance INTO STRICT new_balance;
    END IF;
    INSERT INTO token_transactions (tenant_id, user_id, type, amount, job_id, charge_cycle, provider_transaction_id)
        VALUES (the_tenant, the_user, the_type, the_amount, the_job, the_cycle, the_payment);
    RETURN new_balance;
END $$;

-- What JOB_RESERVE took for this job and cycle, as a positive number: a refund gives back exactly that.
CREATE FUNCTION wallet_reserved(the_tenant uuid, the_job uuid, the_cycle integer) RETURNS bigint
    LANGUAGE sql STABLE AS $$
    SELECT -amount FROM token_transactions
    WHERE tenant_id = the_tenant AND job_id = the_job AND charge_cycle = the_cycle AND type = 'JOB_RESERVE'
$$;

-- Volatile on purpose: called after the wallet lock was waited for, it must see what was committed meanwhile.
CREATE FUNCTION active_jobs(the_tenant uuid, the_user uuid) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT count(*) FROM ai_jobs
    WHERE tenant_id = the_tenant AND user_id = the_user AND completed_at IS NULL
$$;

-- The history of a job. `seq` counts per job, `user_seq` per user: both are given out under a row lock in the event's
-- own transaction, so a reader that has seen n never misses one that commits later with a smaller number.
CREATE TABLE user_streams (
    tenant_id  uuid NOT NULL,
    user_id    uuid NOT NULL,
    last_seq   bigint NOT NULL,
    PRIMARY KEY (tenant_id, user_id)
) WITH (fillfactor = 50);

CREATE TABLE job_events (
    tenant_id    uuid NOT NULL,
    job_id       uuid NOT NULL,
    seq          integer NOT NULL CHECK (seq > 0),
    user_id      uuid NOT NULL,
    user_seq     bigint NOT NULL,
    event        text NOT NULL,
    from_status  text,
    to_status    text,
    actor        text NOT NULL,
    reason       text,
    data         jsonb,
    at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, job_id, seq),
    FOREIGN KEY (tenant_id, job_id) REFERENCES ai_jobs (tenant_id, id)
);
CREATE UNIQUE INDEX events_of_user ON job_events (tenant_id, user_id, user_seq);

-- The first number of `wanted` new ones.
CREATE FUNCTION next_user_seq(the_tenant uuid, the_user uuid, wanted integer) RETURNS bigint LANGUAGE sql AS $$
    INSERT INTO user_streams AS stream (tenant_id, user_id, last_seq) VALUES (the_tenant, the_user, wanted)
    ON CONFLICT (tenant_id, user_id) DO UPDATE SET last_seq = stream.last_seq + wanted
    RETURNING last_seq - wanted + 1
$$;

-- What central has to be told. Relayed right after the commit, and by a loop when that failed.
CREATE TABLE outbox (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id     uuid NOT NULL,
    job_id        uuid NOT NULL,
    charge_cycle  integer NOT NULL,
    action        text NOT NULL CHECK (action IN ('dispatch', 'close')),
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (tenant_id, job_id, charge_cycle, action),
    FOREIGN KEY (tenant_id, job_id) REFERENCES ai_jobs (tenant_id, id)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500);
