-- needs code: any
--
-- Calls of each provider in steps of ten minutes. Each row is counted again from the history until its time is over, so a
-- crash or a second control plane counts nothing twice.
CREATE TABLE calls_by_provider (
    -- Start of the ten minutes in which the dispatches ended.
    at         timestamptz NOT NULL,
    provider   text NOT NULL CHECK (provider <> ''),
    -- Attempts of all these dispatches.
    calls      bigint NOT NULL CHECK (calls >= 0),
    completed  integer NOT NULL CHECK (completed >= 0),
    failed     integer NOT NULL CHECK (failed >= 0),
    PRIMARY KEY (at, provider)
) WITH (fillfactor = 70);

-- Until when calls are counted. One row.
CREATE TABLE calls_by_provider_progress (
    only_row       boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    counted_until  timestamptz NOT NULL
);
