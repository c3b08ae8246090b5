-- needs code: any
-- outside a transaction
--
-- Runs that stopped because their jobs failed, by the time at which they stopped: operators get an alert for each.
DROP INDEX CONCURRENTLY IF EXISTS stopped_runs;
CREATE INDEX CONCURRENTLY stopped_runs ON pipeline_runs (due_at)
    WHERE status = 'paused' AND reason IN ('base_failed', 'branches_failed');
