-- needs code: any
--
-- An ended run that its user or the retention deleted: no user sees it any more. A loop removes its files, candidates
-- and votes in batches, then its row.
ALTER TABLE pipeline_runs ADD COLUMN deleted_at timestamptz;
ALTER TABLE pipeline_runs
    ADD CONSTRAINT only_ended_runs_are_deleted CHECK (deleted_at IS NULL OR ended_at IS NOT NULL) NOT VALID;
