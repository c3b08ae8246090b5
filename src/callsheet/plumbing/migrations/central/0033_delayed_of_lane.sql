-- needs code: any
-- outside a transaction
--
-- Whether a lane that is removed has jobs whose time has not come. A lease writes nothing to it.
DROP INDEX CONCURRENTLY IF EXISTS dispatches_delayed_of_lane;
CREATE INDEX CONCURRENTLY dispatches_delayed_of_lane ON ai_job_dispatches (lane_id)
    WHERE status = 'queued' AND not_before IS NOT NULL;
