-- database: pool

-- part: listed_columns
-- The fields of a ListedJob.
tenant_id, id, user_id, kind, status, charge_cycle, lease_seq, cost, workflow_id, stage, provider,
concurrency_identifier, priority, max_attempts, provider_job_id, idempotency_key, created_at, submitted_at,
deadline_at, started_at, completed_at, effect_id, video_id, actor, queue_name, workflow_run_id, run_id, step_id,
parent_candidate_id

-- name: list_tasks
-- Rows are read by the user's index: see library/statements.sql, list_jobs.
SELECT {listed_columns} FROM (
    SELECT {listed_columns}
    FROM ai_jobs
    WHERE user_id = :user_id AND actor IS NOT NULL
      AND id < coalesce(:before, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
      AND (:status::text IS NULL OR status = :status) AND (:actor::text IS NULL OR actor = :actor)
      AND (:queue_name::text IS NULL OR queue_name = :queue_name) AND deleted_at IS NULL
    ORDER BY id DESC LIMIT :limit
) task
WHERE task.tenant_id = :tenant_id
ORDER BY task.id DESC

-- name: list_tasks_of_run
-- By a comparison of rows, which only the index of runs supports. With workflow_run_id = … the planner may read the
-- user's tasks from the newest on, which is slow for an old run.
SELECT {listed_columns} FROM ai_jobs
WHERE (workflow_run_id, user_id, id) >= (:workflow_run_id, :user_id, '00000000-0000-0000-0000-000000000000'::uuid)
  AND (workflow_run_id, user_id, id)
    < (:workflow_run_id, :user_id, coalesce(:before, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid))
  AND workflow_run_id IS NOT NULL AND tenant_id = :tenant_id AND actor IS NOT NULL
  AND (:status::text IS NULL OR status = :status) AND (:actor::text IS NULL OR actor = :actor)
  AND (:queue_name::text IS NULL OR queue_name = :queue_name) AND deleted_at IS NULL
ORDER BY workflow_run_id DESC, user_id DESC, id DESC LIMIT :limit
