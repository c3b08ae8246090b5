-- Audits of the ledger. The ledger itself is in the pools.

CREATE TABLE ledger_audits (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    requested_by  text NOT NULL,
    requested_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at   timestamptz,
    CONSTRAINT requested_by_is_not_empty CHECK (requested_by <> '')
);
COMMENT ON TABLE ledger_audits IS 'An audit of the ledger that an operator requested.';
COMMENT ON COLUMN ledger_audits.finished_at IS 'When the last pool was finished.';
-- An audit reads whole tables, so one runs at a time.
CREATE UNIQUE INDEX ledger_audits_one_at_a_time ON ledger_audits ((true)) WHERE finished_at IS NULL;

CREATE TABLE ledger_audit_pools (
    audit_id        bigint NOT NULL,
    pool            text NOT NULL,
    claim           uuid,
    claimed_until   timestamptz,
    started_at      timestamptz,
    finished_at     timestamptz,
    error           text,
    wallets         bigint,
    transactions    bigint,
    balance         numeric,
    held            numeric,
    credited        numeric,
    spent           numeric,
    findings        bigint,
    first_findings  jsonb NOT NULL DEFAULT '[]',
    PRIMARY KEY (audit_id, pool),
    CONSTRAINT audit_exists FOREIGN KEY (audit_id) REFERENCES ledger_audits (id) ON DELETE CASCADE,
    CONSTRAINT first_findings_is_a_list CHECK (jsonb_typeof(first_findings) = 'array'),
    CONSTRAINT claim_is_whole CHECK (num_nulls(claim, claimed_until) IN (0, 2)),
    CONSTRAINT finished_means_an_outcome CHECK (finished_at IS NULL OR error IS NOT NULL OR findings IS NOT NULL)
);
COMMENT ON TABLE ledger_audit_pools IS 'The result of an audit in one pool.';
COMMENT ON COLUMN ledger_audit_pools.claim IS
    'The control plane that audits the pool. It renews the claim; if it ends, another one continues.';
COMMENT ON COLUMN ledger_audit_pools.error IS 'Why the pool could not be audited.';
COMMENT ON COLUMN ledger_audit_pools.balance IS 'Tokens in all wallets.';
COMMENT ON COLUMN ledger_audit_pools.held IS 'Tokens that active jobs hold.';
COMMENT ON COLUMN ledger_audit_pools.credited IS 'Tokens that were ever credited.';
COMMENT ON COLUMN ledger_audit_pools.spent IS 'Tokens that were ever spent.';
