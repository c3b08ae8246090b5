-- Whose calls failed: a provider is paused for all tenants only where calls of several of them failed.
ALTER TABLE provider_breakers
    -- Of the failures in a row: each job counts once, however often it was tried.
    ADD COLUMN dispatches bigint[] NOT NULL DEFAULT '{}',
    ADD COLUMN tenants uuid[] NOT NULL DEFAULT '{}',
    -- The only tenant that a pause is for; null: it is for all.
    ADD COLUMN shut_for uuid;
