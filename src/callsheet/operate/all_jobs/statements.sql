-- database: pool
--
-- newest_jobs reads at most :max_read jobs of one source by its index. All other filters are applied
-- to these. A page may therefore be short, or empty, and still have a next one.

-- part: is_listed
-- The filters of an operator, for a row of ai_jobs. A filter that is NULL matches every job.
job.deleted_at IS NULL
  AND (:statuses::text[] IS NULL OR job.status = ANY (:statuses))
  AND (:tenant_id::uuid IS NULL OR job.tenant_id = :tenant_id)
  AND (:user_id::uuid IS NULL OR job.user_id = :user_id)
  AND (:run_id::uuid IS NULL OR job.run_id = :run_id)
  AND (:batch_id::uuid IS NULL OR job.batch_id = :batch_id)
  AND (:client_reference::text IS NULL OR job.client_reference = :client_reference)
  AND (:workflow_ids::bigint[] IS NULL OR job.workflow_id = ANY (:workflow_ids))
  AND (:effect_ids::uuid[] IS NULL OR job.effect_id = ANY (:effect_ids))
  AND (:kinds::text[] IS NULL OR job.kind = ANY (:kinds))
  AND (:fingerprint::text IS NULL OR job.error_fingerprint = :fingerprint AND job.error IS NOT NULL)
  AND (:created_from::timestamptz IS NULL OR job.created_at >= :created_from)
  AND (:created_to::timestamptz IS NULL OR job.created_at < :created_to)
  AND (:patterns::text[] IS NULL
      OR lower(coalesce(job.error ->> 'reported', job.error ->> 'message')) LIKE ALL (:patterns) OR EXISTS (
      SELECT FROM job_descriptions d
      WHERE d.user_id = job.user_id AND d.job_id = job.id
        AND CASE WHEN :searches_texts THEN d.search_text ELSE lower(d.title) END LIKE ALL (:patterns)))

-- name: list_jobs
-- Newest first. Errors, which may be large, are read only for the jobs that are shown.
SELECT job.tenant_id, job.id, job.user_id, job.kind, job.actor, job.status, job.workflow_id, job.effect_id, job.run_id,
    job.cost, job.priority, job.charge_cycle, job.created_at, job.submitted_at, job.started_at, job.completed_at,
    job.error ->> 'type' AS error_type,
    left(coalesce(job.error ->> 'reported', job.error ->> 'message'), 500) AS error_message,
    CASE WHEN job.error IS NOT NULL THEN job.error_fingerprint END AS fingerprint, described.title, progress.percent,
    job.client_reference
FROM (
    SELECT job.tenant_id, job.id
    FROM newest_jobs(:source, :tenant_id, :user_id, :fingerprint, :job_ids, :since, :before, :max_read) listed
    JOIN ai_jobs job ON job.tenant_id = listed.tenant_id AND job.id = listed.id
    WHERE {is_listed}
    ORDER BY job.id DESC LIMIT :limit
) page
JOIN ai_jobs job ON job.tenant_id = page.tenant_id AND job.id = page.id
LEFT JOIN job_descriptions described
    ON described.tenant_id = job.tenant_id AND described.user_id = job.user_id AND described.job_id = job.id
LEFT JOIN job_progress progress
    ON progress.tenant_id = job.tenant_id AND progress.job_id = job.id AND job.status = 'processing'
    AND progress.charge_cycle = job.charge_cycle AND progress.lease_seq = job.lease_seq
ORDER BY job.id DESC

-- name: total_jobs
-- The jobs that list_jobs lists, by status.
SELECT job.status, count(*) AS jobs, sum(job.cost)::bigint AS tokens
FROM newest_jobs(:source, :tenant_id, :user_id, :fingerprint, :job_ids, :since, :before, :max_read) listed
JOIN ai_jobs job ON job.tenant_id = listed.tenant_id AND job.id = listed.id
WHERE {is_listed}
GROUP BY job.status

-- name: collect_jobs
-- The jobs of a bulk action. A job that was created, retried or ended after the action was started does not change.
INSERT INTO bulk_action_jobs (bulk_action_id, tenant_id, job_id, charge_cycle)
SELECT :bulk_action_id, job.tenant_id, job.id, job.charge_cycle
FROM newest_jobs(:source, :tenant_id, :user_id, :fingerprint, :job_ids, :since, :before, :max_read) listed
JOIN ai_jobs job ON job.tenant_id = listed.tenant_id AND job.id = listed.id
WHERE {is_listed}
  AND job.submitted_at <= :frozen_at AND (job.completed_at IS NULL OR job.completed_at <= :frozen_at)
ON CONFLICT DO NOTHING

-- name: last_read
-- The last of the :max_read jobs that list_jobs reads; null if there are fewer.
SELECT CASE WHEN count(*) >= :max_read THEN (array_agg(id ORDER BY id))[1] END AS id
FROM newest_jobs(:source, :tenant_id, :user_id, :fingerprint, :job_ids, :since, :before, :max_read)

-- name: group_errors
-- The errors of the time, at most :max_read of them, in groups. The first job of a group may have failed before.
WITH failed_job AS (
    SELECT error_fingerprint, tenant_id, completed_at FROM ai_jobs
    WHERE error_fingerprint IS NOT NULL AND completed_at >= :since AND completed_at < :until
      AND (:tenant_id::uuid IS NULL OR tenant_id = :tenant_id)
      AND (:workflow_ids::bigint[] IS NULL OR workflow_id = ANY (:workflow_ids))
    ORDER BY completed_at DESC LIMIT :max_read
), error_group AS (
    SELECT error_fingerprint AS fingerprint, count(*) AS jobs, array_agg(DISTINCT tenant_id) AS tenant_ids,
        max(completed_at) AS last_seen_at
    FROM failed_job
    GROUP BY error_fingerprint ORDER BY count(*) DESC, error_fingerprint LIMIT :limit
)
SELECT error_group.fingerprint, error_group.jobs, error_group.tenant_ids, first.completed_at AS first_seen_at,
    error_group.last_seen_at, newest.id AS job_id, newest.tenant_id, newest.workflow_id,
    newest.error ->> 'type' AS type,
    left(coalesce(newest.error ->> 'reported', newest.error ->> 'message'), 500) AS message,
    (SELECT count(*) FROM failed_job) AS jobs_read
FROM error_group CROSS JOIN LATERAL (
    SELECT completed_at FROM ai_jobs
    WHERE error_fingerprint = error_group.fingerprint AND error IS NOT NULL ORDER BY id LIMIT 1
) first CROSS JOIN LATERAL (
    SELECT id, tenant_id, workflow_id, error FROM ai_jobs
    WHERE error_fingerprint = error_group.fingerprint AND error IS NOT NULL
      AND (:tenant_id::uuid IS NULL OR tenant_id = :tenant_id)
      AND (:workflow_ids::bigint[] IS NULL OR workflow_id = ANY (:workflow_ids))
    ORDER BY id DESC LIMIT 1
) newest
ORDER BY error_group.jobs DESC, error_group.fingerprint

-- name: error_group
-- All jobs of one error, at most :max_read of them.
WITH failed_job AS (
    SELECT id, tenant_id, workflow_id, completed_at, error FROM ai_jobs
    WHERE error_fingerprint = :fingerprint AND error IS NOT NULL ORDER BY id DESC LIMIT :max_read
)
SELECT :fingerprint::text AS fingerprint, counted.jobs, counted.tenant_ids, first.completed_at AS first_seen_at,
    counted.last_seen_at, newest.id AS job_id, newest.tenant_id, newest.workflow_id, newest.error ->> 'type' AS type,
    left(coalesce(newest.error ->> 'reported', newest.error ->> 'message'), 500) AS message, counted.jobs AS jobs_read
FROM (
    SELECT count(*) AS jobs, array_agg(DISTINCT tenant_id) AS tenant_ids, max(completed_at) AS last_seen_at
    FROM failed_job
) counted CROSS JOIN LATERAL (
    SELECT completed_at FROM ai_jobs
    WHERE error_fingerprint = :fingerprint AND error IS NOT NULL ORDER BY id LIMIT 1
) first CROSS JOIN LATERAL (SELECT id, tenant_id, workflow_id, error FROM failed_job ORDER BY id DESC LIMIT 1) newest

-- name: fingerprint_of_job
SELECT error_fingerprint FROM ai_jobs
WHERE completed_at IS NOT NULL AND id = :job_id AND error IS NOT NULL AND error_fingerprint IS NOT NULL LIMIT 1
