-- Pipelines: one definition of which candidates may get another child, in place of a copy in each statement.
-- needs code: any

-- Jobs for this parent have failed so often that no other is started for it.
CREATE FUNCTION candidate_has_failed(candidate candidates) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT candidate.failure_count >= candidate.strikes
$$;

-- Another job may be started for this parent. The planner replaces a call by the expression in it, so the partial index
-- eligible_parents serves the function: a new version of it needs a new index. Where candidates are read in another order,
-- for example by ELO, a statement names a part of the condition only, or the planner takes that index and sorts.
CREATE FUNCTION candidate_is_eligible(candidate candidates) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT candidate.status = 'active' AND candidate.child_count + candidate.in_flight < candidate.max_children
        AND candidate.failure_count < candidate.strikes
$$;

-- Why a job may not take its place in the tree of a run, or NULL. Replaces slot_refusal and slot_refused, which code of the
-- previous release calls. VOLATILE on purpose: it is called after the wallet is locked, locks the run and the parent, and
-- sees rows that other transactions have committed since the statement started. `draw` is the fence: a choice that was made
-- before another job of the run was started is refused.
CREATE FUNCTION slot_refusal_2(the_tenant uuid, the_user uuid, the_cost bigint, slot jsonb) RETURNS text
    LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    the_run uuid := slot ->> 'run_id';
    the_parent uuid := slot ->> 'parent_id';
    in_total integer := slot ->> 'in_total';
    run pipeline_runs%ROWTYPE;
    per_run integer;
BEGIN
    SELECT * INTO run FROM pipeline_runs WHERE tenant_id = the_tenant AND id = the_run FOR NO KEY UPDATE;
    IF NOT FOUND OR run.user_id <> the_user OR run.status <> 'active' THEN
        RETURN 'run_not_active';
    END IF;
    IF run.draws + 1 <> (slot ->> 'draw')::integer THEN
        RETURN 'overtaken';
    END IF;
    IF run.spent + the_cost > run.budget THEN
        RETURN 'budget_spent';
    END IF;
    IF the_parent IS NOT NULL THEN
        PERFORM FROM candidates c
            WHERE c.tenant_id = the_tenant AND c.id = the_parent AND c.run_id = the_run AND candidate_is_eligible(c)
            FOR NO KEY UPDATE;
        IF NOT FOUND THEN
            RETURN 'parent_not_eligible';
        END IF;
    END IF;
    -- Jobs of one tenant's runs are counted one after the other.
    PERFORM pg_advisory_xact_lock(hashtextextended('pipelines.in_total ' || the_tenant, 0));
    per_run := least((slot ->> 'per_run')::integer, run.concurrency);
    IF (SELECT count(*) FROM (
            SELECT FROM candidate_slots WHERE run_id = the_run AND status = 'open' LIMIT per_run) open_slot) >= per_run
    THEN
        RETURN 'at_capacity';
    END IF;
    IF (SELECT count(*) FROM (
            SELECT FROM candidate_slots WHERE tenant_id = the_tenant AND status = 'open' LIMIT in_total) open_slot
        ) >= in_total
    THEN
        RETURN 'tenant_at_capacity';
    END IF;
    RETURN NULL;
END $$;
