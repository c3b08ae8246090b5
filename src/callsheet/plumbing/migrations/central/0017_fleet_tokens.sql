-- What workers of a fleet register with. The fleet fixes the stage and the workflows. A token is 256 random bits: one round of
-- SHA-256 is enough, and lets it be found by its index.
CREATE TABLE fleet_tokens (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    fleet_id      bigint NOT NULL REFERENCES gpu_fleets (id) ON DELETE CASCADE,
    name          text NOT NULL CHECK (name <> ''),
    prefix        text NOT NULL CHECK (prefix <> ''),
    token_hash    bytea NOT NULL UNIQUE CHECK (length(token_hash) = 32),
    -- The token it took the place of; a token has one successor at most.
    replaces      bigint UNIQUE REFERENCES fleet_tokens (id),
    created_by    text NOT NULL CHECK (created_by <> ''),
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Set when it is rotated: until then both tokens are accepted.
    expires_at    timestamptz,
    revoked_at    timestamptz,
    last_used_at  timestamptz,
    last_used_by  text,
    CHECK (num_nulls(last_used_at, last_used_by) IN (0, 2)),
    CHECK (replaces <> id)
);
CREATE INDEX fleet_tokens_of_fleet ON fleet_tokens (fleet_id, id);

-- That a person approved a worker belongs to the worker's id, like a drain: it outlasts the worker's registrations.
CREATE TABLE worker_approvals (
    worker_id    text PRIMARY KEY,
    approved_by  text NOT NULL CHECK (approved_by <> ''),
    since        timestamptz NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO worker_approvals (worker_id, approved_by)
SELECT worker_id, 'operator' FROM comfyui_workers
WHERE is_approved AND revoked_at IS NULL AND NOT starts_with(worker_id, 'control-plane:');

ALTER TABLE comfyui_workers
    -- What it registered with: a fleet's token or the shared secret, of which only a keyed hash is kept.
    ADD COLUMN fleet_token_id      bigint REFERENCES fleet_tokens (id) ON DELETE SET NULL,
    ADD COLUMN secret_fingerprint  bytea CHECK (length(secret_fingerprint) = 32),
    -- Whether it serves only those workflows of its fleet that are in worker_workflows.
    ADD COLUMN is_narrowed         boolean NOT NULL DEFAULT false,
    -- Whether it named its providers when it registered. One that did not may name an engine's in a poll.
    ADD COLUMN names_providers     boolean NOT NULL DEFAULT true,
    -- Whether AWS could not be asked about the instance when it registered.
    ADD COLUMN asg_unverified      boolean NOT NULL DEFAULT false,
    ADD CHECK (num_nonnulls(fleet_token_id, secret_fingerprint) < 2);
CREATE INDEX workers_of_fleet_token ON comfyui_workers (fleet_token_id);
