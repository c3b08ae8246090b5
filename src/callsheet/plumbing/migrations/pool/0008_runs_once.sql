-- Runs are begun once per key, as jobs are, and no user has more of them going on than may be.
ALTER TABLE pipeline_runs
    ADD COLUMN idempotency_key text CHECK (idempotency_key <> ''),
    -- Of what was asked for with it: the same key for something else is refused.
    ADD COLUMN request_hash bytea,
    ADD CONSTRAINT run_key_has_its_request CHECK ((idempotency_key IS NULL) = (request_hash IS NULL));
CREATE UNIQUE INDEX one_run_per_key ON pipeline_runs (idempotency_key, tenant_id, user_id);
CREATE INDEX active_runs_of_user ON pipeline_runs (user_id) INCLUDE (tenant_id) WHERE status = 'active';
