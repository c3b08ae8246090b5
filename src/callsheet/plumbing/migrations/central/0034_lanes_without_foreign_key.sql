-- needs code: 0033
--
-- The foreign key from dispatches to lanes needs an index of all dispatches by lane, and every lease writes an entry to it: a
-- sixth of what PostgreSQL does for a job. These triggers keep the same promise with the other indexes, and take the same
-- locks. The migration after this one removes the index.
CREATE FUNCTION dispatch_has_its_lane() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM dispatch_lanes l
    WHERE l.lane_id = NEW.lane_id
      AND (l.workflow_id, l.stage, l.provider, l.concurrency_identifier, l.priority)
        = (NEW.workflow_id, NEW.stage, NEW.provider, NEW.concurrency_identifier, NEW.priority)
    FOR KEY SHARE;
    IF NOT FOUND THEN
        RAISE foreign_key_violation USING MESSAGE = format(
            'dispatch %s has lane %s, which does not exist or has another route', NEW.dispatch_id, NEW.lane_id);
    END IF;
    RETURN NULL;
END
$$;
-- Not for a lease: it sets none of these columns.
CREATE TRIGGER dispatch_has_its_lane
    AFTER INSERT OR UPDATE OF lane_id, workflow_id, stage, provider, concurrency_identifier, priority ON ai_job_dispatches
    FOR EACH ROW EXECUTE FUNCTION dispatch_has_its_lane();

-- After the rows were locked and waited for, so that what an enqueue has committed meanwhile is seen. Whatever puts a dispatch
-- into a lane locks the lane first; so one statement sees each dispatch of a locked lane in one of the three states.
CREATE FUNCTION removed_lanes_are_empty() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    used bigint;
BEGIN
    SELECT r.lane_id INTO used FROM removed r
    WHERE EXISTS (
            SELECT FROM ai_job_dispatches d
            WHERE (d.lane_id, d.dispatch_id) >= (r.lane_id, r.low_water) AND d.lane_id <= r.lane_id
              AND d.status = 'queued' AND d.not_before IS NULL)
       OR EXISTS (
            SELECT FROM ai_job_dispatches d
            WHERE d.lane_id = r.lane_id AND d.status = 'queued' AND d.not_before IS NOT NULL)
       OR r.lane_id IN (SELECT d.lane_id FROM ai_job_dispatches d WHERE d.status <> 'queued')
    LIMIT 1;
    IF FOUND THEN
        RAISE foreign_key_violation USING MESSAGE = format('lane %s cannot be removed: dispatches are in it', used);
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER removed_lanes_are_empty AFTER DELETE ON dispatch_lanes REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION removed_lanes_are_empty();

CREATE FUNCTION lane_keeps_its_route() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE foreign_key_violation USING MESSAGE = format('lane %s keeps its route: dispatches may be in it', OLD.lane_id);
END
$$;
CREATE TRIGGER lane_keeps_its_route
    BEFORE UPDATE OF lane_id, workflow_id, stage, provider, concurrency_identifier, priority ON dispatch_lanes
    FOR EACH ROW EXECUTE FUNCTION lane_keeps_its_route();

ALTER TABLE ai_job_dispatches DROP CONSTRAINT ai_job_dispatches_lane_id_workflow_id_stage_provider_concu_fkey;
-- What the foreign key referred to.
ALTER TABLE dispatch_lanes DROP CONSTRAINT dispatch_lanes_lane_id_workflow_id_stage_provider_concurren_key;
