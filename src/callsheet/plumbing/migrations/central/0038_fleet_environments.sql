-- The environments of a scaled fleet's last workers. They are kept while the fleet has no worker, because its next worker
-- starts from the same image: for a job that this image cannot run, no worker is started.
-- needs code: any
CREATE TABLE fleet_environments (
    fleet_id  bigint NOT NULL REFERENCES fleet_scaling (fleet_id) ON DELETE CASCADE,
    digest    bytea NOT NULL REFERENCES worker_environments (digest) ON DELETE CASCADE,
    seen_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (fleet_id, digest)
);
CREATE INDEX fleets_of_environment ON fleet_environments (digest);
