-- Effect jobs, tasks, typed jobs and jobs of runs are counted apart, each against a limit of its own.

-- What a job counts as. Typed jobs have the name of their actor as kind.
CREATE FUNCTION counted_as(the_run uuid, the_actor text, the_kind text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN the_run IS NOT NULL THEN 'runs' WHEN the_actor IS NULL THEN 'jobs'
        WHEN the_actor = the_kind THEN 'typed' ELSE 'tasks' END
$$;

-- Volatile on purpose, like active_jobs, which the previous version still calls: after the wallet lock was waited for, it
-- must see what was committed meanwhile.
CREATE FUNCTION active_jobs_as(the_tenant uuid, the_user uuid, the_class text) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT count(*) FROM ai_jobs
    WHERE tenant_id = the_tenant AND user_id = the_user AND completed_at IS NULL
      AND counted_as(run_id, actor, kind) = the_class
$$;
