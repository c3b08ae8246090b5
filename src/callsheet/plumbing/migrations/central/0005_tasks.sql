-- A limit that a provider states of itself follows the provider; one that an admin set stays until an admin takes it away.
ALTER TABLE concurrency_limits ADD COLUMN is_declared boolean NOT NULL DEFAULT false;
