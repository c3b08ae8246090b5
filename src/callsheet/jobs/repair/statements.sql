-- database: pool

-- name: active_jobs_page
-- A page of active jobs in the order of their deadlines, because only the index of deadlines has all active jobs. The
-- next page starts at the last deadline again, because several jobs may share it.
SELECT j.tenant_id, j.id AS job_id, j.deadline_at
FROM ai_jobs j
WHERE j.completed_at IS NULL AND j.deadline_at >= coalesce(:after, '-infinity'::timestamptz)
ORDER BY j.deadline_at LIMIT :limit

-- part: listed_columns
-- The fields of a ListedJob.
tenant_id, id, user_id, kind, status, charge_cycle, lease_seq, cost, workflow_id, stage, provider,
concurrency_identifier, priority, max_attempts, provider_job_id, idempotency_key, created_at, submitted_at,
deadline_at, started_at, completed_at, effect_id, video_id, actor, queue_name, workflow_run_id, run_id, step_id,
parent_candidate_id

-- part: entry_columns
-- The fields of a QueueEntry that a job `j` has. The charge cycle follows.
j.tenant_id, j.user_id, j.id AS job_id, j.workflow_id, j.stage, j.provider, j.concurrency_identifier, j.priority,
j.kind, j.max_attempts, j.lease_seconds, j.run_limit_seconds, j.deadline_at

-- name: job_sides
-- The pool's data about jobs. `awaits_relay`: the relay has not yet sent the job to central.
SELECT {entry_columns}, j.charge_cycle, j.status, j.lease_seq,
    EXISTS (SELECT FROM outbox o
    WHERE o.tenant_id = j.tenant_id AND o.job_id = j.id AND o.charge_cycle = j.charge_cycle
        AND o.action = 'dispatch') AS awaits_relay,
    coalesce(j.completed_at, j.submitted_at)
        <= clock_timestamp() - make_interval(secs => :settle_seconds::float8) AS has_settled
FROM unnest(:tenant_ids::uuid[], :job_ids::uuid[]) AS wanted (tenant_id, job_id) CROSS JOIN LATERAL (
    SELECT {listed_columns}, lease_seconds, run_limit_seconds
    FROM ai_jobs
    WHERE tenant_id = wanted.tenant_id AND id = wanted.job_id LIMIT 1
) j

-- name: find_overdue
-- The time is a sub-select, because an index condition cannot use a volatile function: every active job would be read.
SELECT tenant_id, id AS job_id, charge_cycle, status FROM ai_jobs
WHERE completed_at IS NULL AND deadline_at <= (SELECT coalesce(:now, clock_timestamp()))
ORDER BY deadline_at LIMIT :limit
