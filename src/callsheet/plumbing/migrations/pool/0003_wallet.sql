-- Wallets. The ledger, and the functions that move money, are in 0005: its lines name jobs, and jobs name wallets.

CREATE TABLE token_wallets (
    tenant_id   uuid NOT NULL,
    owner_id    uuid NOT NULL,
    balance     bigint NOT NULL DEFAULT 0,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, owner_id),
    CONSTRAINT tenant_is_in_this_pool FOREIGN KEY (tenant_id) REFERENCES pool_tenants (tenant_id),
    CONSTRAINT wallet_is_never_negative CHECK (balance >= 0)
) WITH (fillfactor = 70);
COMMENT ON TABLE token_wallets IS
    'The wallet of a user or of a tenant. The row lock of the wallet of a user is also the lock of the user: a '
    'transaction that counts jobs or files of a user before it inserts one takes it first.';
COMMENT ON COLUMN token_wallets.owner_id IS
    'A user, or the tenant itself: from the wallet of the tenant, the jobs of all users are paid while it pays for them.';
COMMENT ON COLUMN token_wallets.balance IS 'The sum of the lines of the ledger.';

-- Takes the lock of the wallet and returns the balance. It creates the wallet on first use.
CREATE FUNCTION wallet_lock(the_tenant uuid, the_owner uuid) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    found_balance bigint;
BEGIN
    SELECT balance INTO found_balance FROM token_wallets
        WHERE tenant_id = the_tenant AND owner_id = the_owner FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        INSERT INTO token_wallets (tenant_id, owner_id) VALUES (the_tenant, the_owner) ON CONFLICT DO NOTHING;
        SELECT balance INTO found_balance FROM token_wallets
            WHERE tenant_id = the_tenant AND owner_id = the_owner FOR NO KEY UPDATE;
    END IF;
    RETURN found_balance;
END $$;
