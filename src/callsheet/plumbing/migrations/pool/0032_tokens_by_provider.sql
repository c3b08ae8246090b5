-- needs code: any
--
-- Tokens that the jobs of each provider were charged, in steps of ten minutes. Each row is counted again from the jobs and
-- the ledger until its time is over, so a crash or a second control plane counts nothing twice.
CREATE TABLE tokens_by_provider (
    -- Start of the ten minutes in which the jobs ended.
    at        timestamptz NOT NULL,
    provider  text NOT NULL CHECK (provider <> ''),
    tokens    numeric NOT NULL CHECK (tokens >= 0),
    PRIMARY KEY (at, provider)
) WITH (fillfactor = 70);

-- Until when tokens are counted. One row.
CREATE TABLE tokens_by_provider_progress (
    only_row       boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    counted_until  timestamptz NOT NULL
);
