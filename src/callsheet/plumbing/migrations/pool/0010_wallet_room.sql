-- A credit leaves room for what is held, so that no settlement can fail for arithmetic.
--
-- A wallet's balance and what active jobs hold together change only by a credit (up) and by a consumed job (down): a reserve
-- moves tokens from the balance to what is held, a refund moves them back. A credit is accepted only while balance + held +
-- amount stays within 2^53, so balance + held <= 2^53 at all times, and a refund, which leaves balance <= balance + held,
-- cannot exceed it either. 2^53 is also the largest number that every reader of JSON can hold; a bigint holds a thousand
-- times as much. A wallet that has more from before keeps it, and takes no credit until it has less.

-- Tokens that active jobs of this user hold. Volatile on purpose: called after the wallet lock, it sees what was committed
-- meanwhile. Reserves and refunds take that lock, so the sum can only become smaller (a job completes) until it is given up.
CREATE FUNCTION wallet_held(the_tenant uuid, the_user uuid) RETURNS numeric LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(sum(cost), 0) FROM ai_jobs
    WHERE tenant_id = the_tenant AND user_id = the_user AND completed_at IS NULL
$$;

-- The one way money moves: a line and the balance together. wallet_is_never_negative refuses an overdraft; a credit that
-- leaves no room for what is held is refused as out of range.
CREATE OR REPLACE FUNCTION wallet_move(
    the_tenant uuid, the_user uuid, the_type text, the_amount bigint,
    the_job uuid, the_cycle integer, the_payment text
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    new_balance bigint;
BEGIN
    IF the_type = 'PAYMENT_CREDIT' THEN
        -- Locked before what is held is counted, whether or not the caller did so.
        SELECT balance INTO new_balance FROM token_wallets
            WHERE tenant_id = the_tenant AND user_id = the_user FOR NO KEY UPDATE;
        IF new_balance + wallet_held(the_tenant, the_user) + the_amount > 9007199254740992 THEN
            RAISE EXCEPTION 'the wallet cannot take % more tokens', the_amount
                USING ERRCODE = 'numeric_value_out_of_range';
        END IF;
    END IF;
    IF the_amount <> 0 THEN
        UPDATE token_wallets SET balance = balance + the_amount
            WHERE tenant_id = the_tenant AND user_id = the_user RETURNING balance INTO STRICT new_balance;
    END IF;
    INSERT INTO token_transactions (tenant_id, user_id, type, amount, job_id, charge_cycle, provider_transaction_id)
        VALUES (the_tenant, the_user, the_type, the_amount, the_job, the_cycle, the_payment);
    RETURN new_balance;
END $$;
