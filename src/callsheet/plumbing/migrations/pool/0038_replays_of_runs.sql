-- Replays of a run's candidates count in the budget of the run. They were charged outside it.
-- needs code: any

-- One charge cycle of a replay. The run has spent its cost until it is settled, and what was not refunded afterwards.
CREATE TABLE run_replays (
    tenant_id     uuid NOT NULL,
    job_id        uuid NOT NULL,
    charge_cycle  integer NOT NULL CHECK (charge_cycle > 0),
    run_id        uuid NOT NULL,
    -- The position of the step whose candidate is made again.
    position      integer NOT NULL CHECK (position > 0),
    cost          bigint NOT NULL CHECK (cost >= 0),
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    settled_at    timestamptz,
    PRIMARY KEY (job_id, charge_cycle, tenant_id),
    FOREIGN KEY (tenant_id, run_id) REFERENCES pipeline_runs (tenant_id, id) ON DELETE CASCADE,
    FOREIGN KEY (tenant_id, job_id) REFERENCES ai_jobs (tenant_id, id)
);
CREATE INDEX replays_of_run ON run_replays (run_id);
CREATE INDEX open_replays ON run_replays (job_id) WHERE settled_at IS NULL;

-- Pipelines: why a job may not be submitted for a run, or NULL. A slot with `replays` is not a place in the tree: only the
-- budget limits it. VOLATILE, like slot_refusal_2: the run is locked after the wallet.
CREATE FUNCTION slot_refusal_3(the_tenant uuid, the_user uuid, the_cost bigint, slot jsonb) RETURNS text
    LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    run pipeline_runs%ROWTYPE;
BEGIN
    IF NOT slot ? 'replays' THEN
        RETURN slot_refusal_2(the_tenant, the_user, the_cost, slot);
    END IF;
    SELECT * INTO run FROM pipeline_runs WHERE tenant_id = the_tenant AND id = (slot ->> 'run_id')::uuid
    FOR NO KEY UPDATE;
    IF NOT FOUND OR run.user_id <> the_user THEN
        RETURN 'no_run';
    END IF;
    RETURN CASE WHEN run.spent + the_cost > run.budget THEN 'budget_spent' END;
END $$;

-- Pipelines: a charge cycle of a replay starts. The constraint run_stays_in_its_budget refuses it if the budget is spent.
CREATE FUNCTION replay_take(
    the_tenant uuid, the_job uuid, the_cycle integer, the_run uuid, the_position integer, the_cost bigint
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE pipeline_runs SET spent = spent + the_cost, updated_at = clock_timestamp()
    WHERE tenant_id = the_tenant AND id = the_run;
    INSERT INTO run_replays (tenant_id, job_id, charge_cycle, run_id, position, cost)
    VALUES (the_tenant, the_job, the_cycle, the_run, the_position, the_cost);
END $$;

-- Pipelines: a job is submitted for a run, after slot_refusal_3 found no reason against it.
CREATE FUNCTION slot_take_2(the_tenant uuid, the_job uuid, the_cost bigint, slot jsonb) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    IF slot ? 'replays' THEN
        PERFORM replay_take(the_tenant, the_job, 1, (slot ->> 'run_id')::uuid, (slot ->> 'replays')::integer, the_cost);
    ELSE
        PERFORM slot_take(the_tenant, the_job, the_cost, slot);
    END IF;
END $$;

-- Pipelines: a charge cycle of a replay has ended. Refunded tokens are not spent any more, so the run may continue.
CREATE FUNCTION replay_settle(the_tenant uuid, the_job uuid, the_cycle integer) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    the_run uuid;
BEGIN
    -- The run is locked first, as everywhere.
    SELECT run_id INTO the_run FROM run_replays
    WHERE tenant_id = the_tenant AND job_id = the_job AND charge_cycle = the_cycle AND settled_at IS NULL;
    PERFORM FROM pipeline_runs WHERE tenant_id = the_tenant AND id = the_run FOR NO KEY UPDATE;
    UPDATE run_replays SET settled_at = clock_timestamp()
    WHERE tenant_id = the_tenant AND job_id = the_job AND charge_cycle = the_cycle AND settled_at IS NULL;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE pipeline_runs SET spent = spent - wallet_refunded(the_tenant, the_job, the_cycle),
        due_at = CASE WHEN status = 'active' THEN clock_timestamp() ELSE due_at END, updated_at = clock_timestamp()
    WHERE tenant_id = the_tenant AND id = the_run;
    RETURN true;
END $$;

-- Pipelines: a job was retried. If it is a replay, its next charge cycle counts, too.
CREATE FUNCTION replay_retry(the_tenant uuid, the_job uuid, the_cycle integer, the_cost bigint) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    earlier run_replays%ROWTYPE;
BEGIN
    SELECT * INTO earlier FROM run_replays
    WHERE tenant_id = the_tenant AND job_id = the_job AND charge_cycle = the_cycle - 1;
    IF FOUND THEN
        PERFORM replay_settle(the_tenant, the_job, the_cycle - 1);
        PERFORM replay_take(the_tenant, the_job, the_cycle, earlier.run_id, earlier.position, the_cost);
    END IF;
END $$;
