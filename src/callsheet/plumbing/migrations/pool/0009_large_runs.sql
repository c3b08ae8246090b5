-- Runs of any size: what a choice needs is counted as it changes, and a large branch is killed piece by piece.

-- Active candidates of the first step. Counted anew for each job, 100,000 of them took 13 ms.
ALTER TABLE pipeline_runs ADD COLUMN active_bases integer NOT NULL DEFAULT 0 CHECK (active_bases >= 0);
UPDATE pipeline_runs r SET active_bases = (
    SELECT count(*) FROM candidates c
    WHERE c.tenant_id = r.tenant_id AND c.run_id = r.id AND c.position = 1 AND c.status = 'active'
);

-- Kills that have not come to their end: some of what descends from the candidate may still be active. Nothing is chosen
-- for the run meanwhile; whoever finds one that was left goes on with it.
CREATE TABLE branch_kills (
    tenant_id     uuid NOT NULL,
    candidate_id  uuid NOT NULL,
    run_id        uuid NOT NULL,
    user_id       uuid NOT NULL,
    -- When the last piece was rejected: whoever does it is at work, or has left it.
    touched_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, candidate_id),
    FOREIGN KEY (tenant_id, candidate_id) REFERENCES candidates (tenant_id, id),
    FOREIGN KEY (tenant_id, run_id) REFERENCES pipeline_runs (tenant_id, id)
);
CREATE INDEX kills_of_run ON branch_kills (run_id);

-- For people who ask for what was rejected, of which there may be little in a large run, and for counting it.
CREATE INDEX rejected_candidates ON candidates (run_id, number) INCLUDE (position, tenant_id) WHERE status = 'rejected';
