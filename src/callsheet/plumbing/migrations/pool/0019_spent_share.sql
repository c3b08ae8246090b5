-- How much of a run was spent, from 0 to 1: what its worker last said is done, or where that is more, the share of the run
-- limit that has passed. Time counts from when the engine began, as the worker said: what a job waited for in the engine's queue
-- is not its own. Actors of tasks say nothing of that; their time counts from when the task was handed out.
CREATE FUNCTION job_spent(
    the_tenant uuid, the_job uuid, the_cycle integer, the_lease bigint, since timestamptz, run_limit_seconds integer,
    is_task boolean
) RETURNS numeric LANGUAGE sql STABLE AS $$
    SELECT least(1, greatest(0, said.percent::numeric / 100, CASE
        WHEN said.elapsed_ms IS NOT NULL
        THEN said.elapsed_ms / 1000.0 + extract(epoch FROM clock_timestamp() - said.updated_at)
        WHEN is_task THEN extract(epoch FROM clock_timestamp() - since)
        END / run_limit_seconds))
    FROM (SELECT) job LEFT JOIN (
        SELECT percent, elapsed_ms, updated_at FROM job_progress
        WHERE tenant_id = the_tenant AND job_id = the_job AND charge_cycle = the_cycle AND lease_seq = the_lease
    ) said ON true
$$;
