-- needs code: any
--
-- Audits of the ledger that operators request, and their results by pool.
CREATE TABLE ledger_audits (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    requested_by  text NOT NULL CHECK (requested_by <> ''),
    requested_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- When the last pool was finished.
    finished_at   timestamptz
);
-- An audit reads whole tables, so one runs at a time.
CREATE UNIQUE INDEX ledger_audits_one_at_a_time ON ledger_audits ((true)) WHERE finished_at IS NULL;

CREATE TABLE ledger_audit_pools (
    audit_id        bigint NOT NULL REFERENCES ledger_audits (id) ON DELETE CASCADE,
    pool            text NOT NULL,
    -- The control plane that audits the pool. It renews the claim; when a process dies, another one takes the pool over.
    claim           uuid,
    claimed_until   timestamptz,
    started_at      timestamptz,
    finished_at     timestamptz,
    -- Why the pool could not be audited.
    error           text,
    wallets         bigint,
    transactions    bigint,
    -- Tokens: of all wallets, held by active jobs, ever credited and ever spent.
    balance         numeric,
    held            numeric,
    credited        numeric,
    spent           numeric,
    findings        bigint,
    first_findings  jsonb NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(first_findings) = 'array'),
    PRIMARY KEY (audit_id, pool),
    CHECK (num_nulls(claim, claimed_until) IN (0, 2)),
    CHECK (finished_at IS NULL OR error IS NOT NULL OR findings IS NOT NULL)
);
