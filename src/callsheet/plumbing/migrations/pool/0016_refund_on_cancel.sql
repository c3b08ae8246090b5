-- A canceled job may keep the share of its tokens that was spent, where its workflow said so when it was submitted.

-- Not validated: every row has the default, and looking at all of them would hold the table.
ALTER TABLE ai_jobs ADD COLUMN refund_on_cancel text NOT NULL DEFAULT 'all';
ALTER TABLE ai_jobs ADD CONSTRAINT refund_on_cancel_is_known
    CHECK (refund_on_cancel IN ('all', 'unspent')) NOT VALID;

-- Of a refund: tokens of the reserve that were not given back. Reserve, refund and this are 0 together.
ALTER TABLE token_transactions ADD COLUMN kept bigint NOT NULL DEFAULT 0;
ALTER TABLE token_transactions ADD CONSTRAINT only_refunds_keep
    CHECK (kept = 0 OR (kept > 0 AND type = 'JOB_REFUND')) NOT VALID;

-- How much of a run was spent when it was canceled, from 0 to 1: what its worker last said, or the share of the run limit
-- that has passed where that is more. Who reports no progress, or none any more after a crash, is counted by time.
CREATE FUNCTION job_spent_share(
    the_tenant uuid, the_job uuid, the_cycle integer, the_lease bigint, since timestamptz, run_limit_seconds integer
) RETURNS numeric LANGUAGE sql STABLE AS $$
    SELECT least(1, greatest(
        0,
        extract(epoch FROM clock_timestamp() - since) / run_limit_seconds,
        (SELECT percent::numeric / 100 FROM job_progress
         WHERE tenant_id = the_tenant AND job_id = the_job AND charge_cycle = the_cycle AND lease_seq = the_lease)
    ))
$$;

-- The one way a reserve goes back: whole, or without the share that was spent. It never exceeds the reserve, and the unique
-- settlement of a cycle makes it happen once. A token that was spent in part goes back.
CREATE FUNCTION wallet_refund(
    the_tenant uuid, the_user uuid, the_job uuid, the_cycle integer, spent numeric
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    reserved bigint := wallet_reserved(the_tenant, the_job, the_cycle);
    kept_tokens bigint := floor(reserved * least(1, greatest(0, spent)));
    new_balance bigint;
BEGIN
    IF reserved <> kept_tokens THEN
        UPDATE token_wallets SET balance = balance + reserved - kept_tokens
            WHERE tenant_id = the_tenant AND user_id = the_user RETURNING balance INTO STRICT new_balance;
    END IF;
    INSERT INTO token_transactions (tenant_id, user_id, type, amount, job_id, charge_cycle, kept)
        VALUES (the_tenant, the_user, 'JOB_REFUND', reserved - kept_tokens, the_job, the_cycle, kept_tokens);
    RETURN new_balance;
END $$;

-- What was given back for a job and cycle; 0 where nothing was.
CREATE FUNCTION wallet_refunded(the_tenant uuid, the_job uuid, the_cycle integer) RETURNS bigint
    LANGUAGE sql STABLE AS $$
    SELECT coalesce(sum(amount), 0)::bigint FROM token_transactions
    WHERE tenant_id = the_tenant AND job_id = the_job AND charge_cycle = the_cycle AND type = 'JOB_REFUND'
$$;
