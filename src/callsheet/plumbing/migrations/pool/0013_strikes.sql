-- After how many failures a run gives up: of one candidate, of jobs of the first step in a row, of branches without a child. The
-- setting counts when the run begins and stays with the run; each candidate has it too, so that an index can know.
ALTER TABLE pipeline_runs ADD COLUMN strikes integer NOT NULL DEFAULT 3 CHECK (strikes > 0);
ALTER TABLE candidates ADD COLUMN strikes integer NOT NULL DEFAULT 3 CHECK (strikes > 0);

DROP INDEX eligible_parents;
CREATE INDEX eligible_parents ON candidates (run_id, position, number) INCLUDE (elo, tenant_id)
    WHERE status = 'active' AND child_count + in_flight < max_children AND failure_count < strikes;

-- As before, with the candidate's own number of strikes.
CREATE OR REPLACE FUNCTION slot_refused(
    the_tenant uuid, the_user uuid, the_run uuid, the_parent uuid, the_draw integer, the_cost bigint,
    per_run integer, in_total integer
) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    run pipeline_runs%ROWTYPE;
    most integer;
BEGIN
    SELECT * INTO run FROM pipeline_runs WHERE tenant_id = the_tenant AND id = the_run FOR NO KEY UPDATE;
    IF NOT FOUND OR run.user_id <> the_user OR run.status <> 'active' THEN
        RETURN 'run_not_active';
    END IF;
    IF run.draws + 1 <> the_draw THEN
        RETURN 'overtaken';
    END IF;
    IF run.spent + the_cost > run.budget THEN
        RETURN 'budget_spent';
    END IF;
    IF the_parent IS NOT NULL THEN
        PERFORM FROM candidates
            WHERE tenant_id = the_tenant AND id = the_parent AND run_id = the_run AND status = 'active'
              AND child_count + in_flight < max_children AND failure_count < strikes
            FOR NO KEY UPDATE;
        IF NOT FOUND THEN
            RETURN 'parent_not_eligible';
        END IF;
    END IF;
    -- Between runs: counted one after the other, in this database.
    PERFORM pg_advisory_xact_lock(hashtextextended('pipelines.in_total', 0));
    most := least(per_run, coalesce(run.concurrency, per_run));
    IF (SELECT count(*) FROM (
            SELECT FROM candidate_slots WHERE run_id = the_run AND status = 'open' LIMIT most) slot) >= most
        OR (SELECT count(*) FROM (SELECT FROM candidate_slots WHERE status = 'open' LIMIT in_total) slot) >= in_total
    THEN
        RETURN 'at_capacity';
    END IF;
    RETURN NULL;
END $$;
