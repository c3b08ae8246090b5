-- database: pool

-- name: active_jobs_of_user
SELECT id FROM ai_jobs WHERE tenant_id = :tenant_id AND user_id = :user_id AND completed_at IS NULL ORDER BY id

-- part: listed_columns
-- The fields of a ListedJob.
tenant_id, id, user_id, kind, status, charge_cycle, lease_seq, cost, workflow_id, stage, provider,
concurrency_identifier, priority, max_attempts, provider_job_id, idempotency_key, created_at, submitted_at,
deadline_at, started_at, completed_at, effect_id, video_id, actor, queue_name, workflow_run_id, run_id, step_id,
parent_candidate_id

-- part: other_columns
-- The fields of a JobRow that lists leave out.
event_seq, lease_seconds, run_limit_seconds, input_file_ids, result, error, deleted_at, request_hash

-- name: get_job
-- Without the payload, which may have megabytes. `payload_of_job` reads the payload.
SELECT {listed_columns}, {other_columns} FROM ai_jobs
WHERE tenant_id = :tenant_id AND id = :job_id

-- name: description_of_job
SELECT title, prompt, sent FROM job_descriptions
WHERE user_id = :user_id AND job_id = :job_id AND tenant_id = :tenant_id

-- name: inputs_of_jobs
-- The input files of jobs, the primary input first.
SELECT j.id, j.input_file_ids FROM unnest(:job_ids::uuid[]) AS wanted (id) CROSS JOIN LATERAL (
    SELECT id, input_file_ids FROM ai_jobs WHERE tenant_id = :tenant_id AND id = wanted.id LIMIT 1
) j

-- name: outcomes_of_jobs
-- Results and errors in the order of the given ids, at least the first, until their total size reaches :most_bytes.
-- They are read one by one, so that values that do not fit are never read.
WITH RECURSIVE outcome AS (
    SELECT 0 AS place, NULL::jsonb AS result, NULL::jsonb AS error, NULL::uuid AS user_id, 0 AS bytes
    UNION ALL
    SELECT outcome.place + 1, job.result, job.error, job.user_id,
        outcome.bytes + coalesce(octet_length(job.result::text), 0) + coalesce(octet_length(job.error::text), 0)
    FROM outcome LEFT JOIN LATERAL (
        SELECT result, error, user_id FROM ai_jobs
        WHERE tenant_id = :tenant_id AND id = (:job_ids::uuid[])[outcome.place + 1] LIMIT 1
    ) job ON true
    WHERE outcome.place < cardinality(:job_ids) AND outcome.bytes < :most_bytes::integer
)
SELECT outcome.result, outcome.error, (
        SELECT d.title FROM job_descriptions d
        WHERE d.user_id = outcome.user_id AND d.job_id = (:job_ids::uuid[])[outcome.place]
          AND d.tenant_id = :tenant_id
    ) AS title
FROM outcome
WHERE outcome.place > 0
ORDER BY outcome.place

-- name: find_by_idempotency_key
-- Equality is written as a comparison of rows, which only the index of the keys supports: a plan made while the table
-- was empty used the primary key and read every job of the tenant.
SELECT {listed_columns}, {other_columns} FROM ai_jobs
WHERE (idempotency_key, tenant_id, user_id) >= (:idempotency_key, :tenant_id, :user_id)
  AND (idempotency_key, tenant_id, user_id) <= (:idempotency_key, :tenant_id, :user_id)

-- name: list_jobs
-- Rows are read by the user's index: see library/statements.sql, list_jobs. Payloads are not listed; `outcomes_of_jobs`
-- reads results and errors, up to the maximum size of a page.
SELECT {listed_columns} FROM (
    SELECT {listed_columns}
    FROM ai_jobs
    WHERE user_id = :user_id AND id < coalesce(:before, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
      AND (:status::text IS NULL OR status = :status) AND deleted_at IS NULL
    ORDER BY id DESC LIMIT :limit
) job
WHERE job.tenant_id = :tenant_id
ORDER BY job.id DESC

-- name: list_jobs_of_run
-- A run belongs to one user: its owner is checked on what was read.
SELECT {listed_columns} FROM (
    SELECT {listed_columns}
    FROM ai_jobs
    WHERE run_id = :run_id AND id < coalesce(:before, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
      AND (:status::text IS NULL OR status = :status) AND deleted_at IS NULL
    ORDER BY id DESC LIMIT :limit
) job
WHERE job.tenant_id = :tenant_id AND job.user_id = :user_id
ORDER BY job.id DESC

-- name: events_of_job
SELECT job_id, seq, user_seq, event, from_status, to_status, actor, reason, data, at FROM job_events
WHERE tenant_id = :tenant_id AND job_id = :job_id AND seq > :after
ORDER BY seq LIMIT :limit
