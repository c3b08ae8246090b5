-- Money. These two tables are written only by the functions below.

CREATE TABLE token_transactions (
    id                       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id                uuid NOT NULL,
    user_id                  uuid NOT NULL,
    type                     text NOT NULL,
    amount                   bigint NOT NULL,
    job_id                   uuid,
    charge_cycle             integer,
    provider_transaction_id  text,
    created_at               timestamptz NOT NULL DEFAULT clock_timestamp(),
    kept                     bigint NOT NULL DEFAULT 0,
    note                     text,
    budget_periods           bigint[],
    of_tenant                boolean NOT NULL DEFAULT false,
    CONSTRAINT one_line_per_cycle_and_type UNIQUE (tenant_id, job_id, charge_cycle, type),
    CONSTRAINT wallet_exists FOREIGN KEY (tenant_id, user_id) REFERENCES token_wallets (tenant_id, owner_id),
    CONSTRAINT job_exists FOREIGN KEY (tenant_id, job_id) REFERENCES ai_jobs (tenant_id, id),
    CONSTRAINT type_is_known CHECK (
        type IN ('PAYMENT_CREDIT', 'PAYMENT_DEBIT', 'JOB_RESERVE', 'JOB_CONSUME', 'JOB_REFUND')),
    CONSTRAINT only_payments_have_a_payment CHECK (
        (type IN ('PAYMENT_CREDIT', 'PAYMENT_DEBIT')) = (provider_transaction_id IS NOT NULL)),
    CONSTRAINT all_others_have_a_job CHECK ((type IN ('PAYMENT_CREDIT', 'PAYMENT_DEBIT')) = (job_id IS NULL)),
    CONSTRAINT job_has_a_charge_cycle CHECK ((job_id IS NULL) = (charge_cycle IS NULL)),
    CONSTRAINT amount_fits_its_type CHECK (
        CASE type WHEN 'PAYMENT_CREDIT' THEN amount > 0
                  WHEN 'PAYMENT_DEBIT' THEN amount < 0
                  WHEN 'JOB_RESERVE' THEN amount <= 0
                  WHEN 'JOB_CONSUME' THEN amount = 0
                  ELSE amount >= 0 END),
    CONSTRAINT only_reserves_count_in_budgets CHECK (budget_periods IS NULL OR type = 'JOB_RESERVE'),
    CONSTRAINT only_refunds_keep CHECK (kept = 0 OR (kept > 0 AND type = 'JOB_REFUND')),
    -- A job has a user, also if the tenant pays for it. A payment of the tenant has none.
    CONSTRAINT payments_of_tenant_have_no_user CHECK ((of_tenant AND job_id IS NULL) = (user_id = tenant_id)),
    CONSTRAINT debits_have_a_note CHECK ((type = 'PAYMENT_DEBIT') = (note IS NOT NULL)),
    CONSTRAINT note_is_short CHECK (length(note) BETWEEN 1 AND 200)
);
COMMENT ON TABLE token_transactions IS
    'A line of the ledger: something that happened to a wallet. A balance is always the sum of its lines.';
COMMENT ON COLUMN token_transactions.user_id IS
    'The user of the job, or of the payment. The tenant, if the payment is its own.';
COMMENT ON COLUMN token_transactions.of_tenant IS
    'The line is of the wallet of the tenant. False: of the wallet of the user.';
COMMENT ON COLUMN token_transactions.amount IS 'Tokens that the balance changed by.';
COMMENT ON COLUMN token_transactions.provider_transaction_id IS
    'What the payment provider calls the payment: it is credited once, and taken back once.';
COMMENT ON COLUMN token_transactions.note IS 'Why tokens were taken back.';
COMMENT ON COLUMN token_transactions.kept IS
    'In a refund: tokens of the reserve that were not given back. The sum of reserve, refund and this is 0.';
COMMENT ON COLUMN token_transactions.budget_periods IS
    'In a reserve: the periods of budgets that the tokens were taken from. A refund gives them back to the same ones.';
-- It does not begin with the tenant: a plan made while the table was empty used it to find a line of a job. Lines of jobs,
-- which are most lines, are not in it.
CREATE UNIQUE INDEX one_line_per_payment ON token_transactions (provider_transaction_id, tenant_id, type)
    WHERE provider_transaction_id IS NOT NULL;
-- Consumed or refunded, never both.
CREATE UNIQUE INDEX one_settlement_per_cycle ON token_transactions (tenant_id, job_id, charge_cycle)
    WHERE type IN ('JOB_CONSUME', 'JOB_REFUND');
CREATE INDEX transactions_of_user ON token_transactions (tenant_id, user_id, id DESC);
CREATE INDEX transactions_of_tenant ON token_transactions (tenant_id, (-id)) WHERE of_tenant;

-- The locks under which tokens of a user are taken: the lock of the user, then the wallet of the tenant if it pays, then
-- its budgets. Returns the balance of the wallet that pays. The order is the one of 0012_budgets.sql.
CREATE FUNCTION payer_lock(
    the_tenant uuid, the_user uuid, OUT balance bigint, OUT paid_by_tenant boolean, OUT has_budgets boolean
) LANGUAGE plpgsql AS $$
BEGIN
    balance := wallet_lock(the_tenant, the_user);
    SELECT t.pays_for_users, t.has_budgets INTO STRICT paid_by_tenant, has_budgets
        FROM pool_tenants t WHERE t.tenant_id = the_tenant;
    IF paid_by_tenant THEN
        balance := wallet_lock(the_tenant, the_tenant);
    END IF;
    IF has_budgets THEN
        PERFORM budgets_lock(the_tenant);
    END IF;
END $$;

-- The balance of the wallet that pays for the next job of a user.
CREATE FUNCTION payer_balance(the_tenant uuid, the_user uuid)
    RETURNS TABLE (balance bigint, paid_by_tenant boolean, has_budgets boolean) LANGUAGE sql STABLE AS $$
    SELECT coalesce(w.balance, 0), t.pays_for_users, t.has_budgets
    FROM pool_tenants t LEFT JOIN token_wallets w ON w.tenant_id = the_tenant
        AND w.owner_id = CASE WHEN t.pays_for_users THEN the_tenant ELSE the_user END
    WHERE t.tenant_id = the_tenant
$$;

-- Tokens that active jobs of this user hold, from whichever wallet.
CREATE FUNCTION user_held(the_tenant uuid, the_user uuid) RETURNS numeric LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(sum(cost), 0) FROM ai_jobs
    WHERE tenant_id = the_tenant AND user_id = the_user AND completed_at IS NULL
$$;

-- Tokens of this wallet that active jobs hold. VOLATILE on purpose: called after the lock of the wallet, it sees what was
-- committed meanwhile. Reserves and refunds take that lock, so the sum can only become smaller (a job completes) until
-- the lock is released.
CREATE FUNCTION wallet_held(the_tenant uuid, the_owner uuid) RETURNS numeric LANGUAGE sql VOLATILE AS $$
    SELECT CASE WHEN the_owner = the_tenant::uuid THEN (
        SELECT coalesce(sum(cost), 0) FROM ai_jobs
        WHERE tenant_id = the_tenant AND completed_at IS NULL AND paid_by_tenant
    ) ELSE (
        SELECT coalesce(sum(cost), 0) FROM ai_jobs
        WHERE tenant_id = the_tenant AND user_id = the_owner AND completed_at IS NULL AND NOT paid_by_tenant
    ) END
$$;

-- What JOB_RESERVE took for this job and cycle, as a positive number, and from whose wallet: a refund gives back exactly
-- that. And the periods of budgets that it counts in.
CREATE FUNCTION wallet_reserved(
    the_tenant uuid, the_job uuid, the_cycle integer,
    OUT reserve bigint, OUT taken_from bigint[], OUT from_tenant boolean
) LANGUAGE sql STABLE AS $$
    SELECT -amount, budget_periods, of_tenant FROM token_transactions
    WHERE tenant_id = the_tenant AND job_id = the_job AND charge_cycle = the_cycle AND type = 'JOB_RESERVE'
$$;

-- What was given back for a job and cycle; 0 if nothing was.
CREATE FUNCTION wallet_refunded(the_tenant uuid, the_job uuid, the_cycle integer) RETURNS bigint
    LANGUAGE sql STABLE AS $$
    SELECT coalesce(sum(amount), 0)::bigint FROM token_transactions
    WHERE tenant_id = the_tenant AND job_id = the_job AND charge_cycle = the_cycle AND type = 'JOB_REFUND'
$$;

-- Credits, debits and reserves: a line and the balance together. wallet_is_never_negative refuses an overdraft; a credit that
-- leaves no room for what is held is refused as out of range.
--
-- A credit leaves room for what is held, so that no settlement can fail for arithmetic. A balance and what active jobs
-- hold together change only by a credit (up) and by a consumed job (down): a reserve moves tokens from the balance to
-- what is held, a refund moves them back. A credit is accepted only while balance + held + amount stays within 2^53, so
-- balance + held <= 2^53 at all times, and a refund, which leaves balance <= balance + held, cannot exceed it either.
-- 2^53 is also the largest number that every reader of JSON can hold; a bigint holds a thousand times as much.
CREATE FUNCTION wallet_move(
    the_tenant uuid, the_user uuid, the_type text, the_amount bigint,
    the_job uuid, the_cycle integer, the_payment text, the_note text DEFAULT NULL, the_budgets bigint[] DEFAULT NULL,
    from_tenant boolean DEFAULT false
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    the_owner uuid := CASE WHEN from_tenant THEN the_tenant ELSE the_user END;
    new_balance bigint;
BEGIN
    IF the_type = 'PAYMENT_CREDIT' THEN
        -- Locked before what is held is counted, whether or not the caller did so.
        SELECT balance INTO new_balance FROM token_wallets
            WHERE tenant_id = the_tenant AND owner_id = the_owner FOR NO KEY UPDATE;
        IF new_balance + wallet_held(the_tenant, the_owner) + the_amount > 9007199254740992 THEN
            RAISE EXCEPTION 'the wallet cannot take % more tokens', the_amount
                USING ERRCODE = 'numeric_value_out_of_range';
        END IF;
    END IF;
    IF the_amount <> 0 THEN
        UPDATE token_wallets SET balance = balance + the_amount
            WHERE tenant_id = the_tenant AND owner_id = the_owner RETURNING balance INTO STRICT new_balance;
    END IF;
    INSERT INTO token_transactions (
        tenant_id, user_id, type, amount, job_id, charge_cycle, provider_transaction_id, note, budget_periods, of_tenant
    ) VALUES (
        the_tenant, the_user, the_type, the_amount, the_job, the_cycle, the_payment, the_note, the_budgets, from_tenant
    );
    RETURN new_balance;
END $$;

-- The tokens of several new jobs of a user are reserved: the balance changes once, and each job has its own line. A line
-- names its charge cycle, which is the first. Changed one by one, the row of the wallet would have a version for each job.
CREATE FUNCTION wallet_reserve(
    the_tenant uuid, the_user uuid, from_tenant boolean, jobs uuid[], costs bigint[], the_budgets bigint[]
) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    UPDATE token_wallets SET balance = balance - (SELECT sum(cost) FROM unnest(costs) AS reserved (cost))
        WHERE tenant_id = the_tenant AND owner_id = CASE WHEN from_tenant THEN the_tenant ELSE the_user END;
    INSERT INTO token_transactions (tenant_id, user_id, type, amount, job_id, charge_cycle, budget_periods, of_tenant)
        SELECT the_tenant, the_user, 'JOB_RESERVE', -cost, job_id, 1, the_budgets, from_tenant
        FROM unnest(jobs, costs) AS reserved (job_id, cost);
END $$;

-- The tokens of several jobs are consumed, which were reserved before. No balance changes. One statement for all jobs:
-- one by one, each job pays for the start and the end of a statement.
CREATE FUNCTION wallet_consume(tenants uuid[], users uuid[], from_tenants boolean[], jobs uuid[], cycles integer[])
    RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO token_transactions (tenant_id, user_id, type, amount, job_id, charge_cycle, of_tenant)
        SELECT tenant_id, user_id, 'JOB_CONSUME', 0, job_id, charge_cycle, of_tenant
        FROM unnest(tenants, users, jobs, cycles, from_tenants)
            AS consumed (tenant_id, user_id, job_id, charge_cycle, of_tenant);
END $$;

-- The one way a reserve goes back: whole, or without the share that was spent, to the wallet that it came from. It never
-- exceeds the reserve, and the unique settlement of a cycle makes it happen once. A token that was spent in part goes
-- back. Budgets get the tokens back too: the caller holds their lock.
CREATE FUNCTION wallet_refund(
    the_tenant uuid, the_user uuid, the_job uuid, the_cycle integer, spent numeric
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    reserved bigint;
    taken_from bigint[];
    from_tenant boolean;
    kept_tokens bigint;
    new_balance bigint;
BEGIN
    SELECT line.reserve, line.taken_from, line.from_tenant INTO reserved, taken_from, from_tenant
        FROM wallet_reserved(the_tenant, the_job, the_cycle) line;
    kept_tokens := floor(reserved * least(1, greatest(0, spent)));
    IF taken_from IS NOT NULL THEN
        PERFORM budgets_give_back(taken_from, reserved - kept_tokens);
    END IF;
    IF reserved <> kept_tokens THEN
        UPDATE token_wallets SET balance = balance + reserved - kept_tokens
            WHERE tenant_id = the_tenant AND owner_id = CASE WHEN from_tenant THEN the_tenant ELSE the_user END
            RETURNING balance INTO STRICT new_balance;
    END IF;
    INSERT INTO token_transactions (tenant_id, user_id, type, amount, job_id, charge_cycle, kept, of_tenant)
        VALUES (the_tenant, the_user, 'JOB_REFUND', reserved - kept_tokens, the_job, the_cycle, kept_tokens, from_tenant);
    RETURN new_balance;
END $$;
