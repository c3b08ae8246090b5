-- Jobs of runs are counted per tenant, no longer all together: one tenant's runs hold up nobody else's.
CREATE INDEX open_slots_of_tenant ON candidate_slots (tenant_id) WHERE status = 'open';
-- Made anew, after it: where both would do, for the slots of one run, the planner takes the younger.
DROP INDEX open_slots;
CREATE INDEX open_slots ON candidate_slots (run_id) WHERE status = 'open';

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
    -- Between runs of the tenant: counted one after the other.
    PERFORM pg_advisory_xact_lock(hashtextextended('pipelines.in_total ' || the_tenant, 0));
    most := least(per_run, coalesce(run.concurrency, per_run));
    IF (SELECT count(*) FROM (
            SELECT FROM candidate_slots WHERE run_id = the_run AND status = 'open' LIMIT most) slot) >= most
    THEN
        RETURN 'at_capacity';
    END IF;
    IF (SELECT count(*) FROM (
            SELECT FROM candidate_slots WHERE tenant_id = the_tenant AND status = 'open' LIMIT in_total) slot) >= in_total
    THEN
        RETURN 'tenant_at_capacity';
    END IF;
    RETURN NULL;
END $$;
