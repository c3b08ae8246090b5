-- database: pool

-- name: active_jobs_of_user
SELECT id FROM ai_jobs WHERE tenant_id = :tenant_id AND user_id = :user_id AND completed_at IS NULL ORDER BY id

-- name: description_of_job
SELECT title, prompt, sent FROM job_descriptions
WHERE user_id = :user_id AND job_id = :job_id AND tenant_id = :tenant_id

-- name: inputs_of_jobs
-- The input files of jobs, the primary input first.
SELECT j.id, j.input_file_ids FROM unnest(:job_ids::uuid[]) AS wanted (id) CROSS JOIN LATERAL (
    SELECT id, input_file_ids FROM ai_jobs WHERE tenant_id = :tenant_id AND id = wanted.id LIMIT 1
) j

-- name: outcomes_of_jobs
-- Results and errors in the order of the given ids, at least the first, until their total size reaches :max_bytes.
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
    WHERE outcome.place < cardinality(:job_ids) AND outcome.bytes < :max_bytes::integer
)
SELECT outcome.result, outcome.error, (
        SELECT d.title FROM job_descriptions d
        WHERE d.user_id = outcome.user_id AND d.job_id = (:job_ids::uuid[])[outcome.place]
          AND d.tenant_id = :tenant_id
    ) AS title
FROM outcome
WHERE outcome.place > 0
ORDER BY outcome.place

-- name: events_of_job
SELECT job_id, seq, user_seq, event, from_status, to_status, actor, reason, data, at FROM job_events
WHERE tenant_id = :tenant_id AND job_id = :job_id AND seq > :after
ORDER BY seq LIMIT :limit
