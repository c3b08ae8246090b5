-- database: pool

-- part: is_listed
-- The filters of a user except the status, for a row of `listed`. A filter that is NULL matches every job. Texts are
-- read once, only from their index.
(:kinds::text[] IS NULL OR listed.kind = ANY (:kinds))
  AND (:media::text[] IS NULL OR listed.medium = ANY (:media))
  AND (:actors::text[] IS NULL OR listed.actor = ANY (:actors))
  AND (:effect_ids::uuid[] IS NULL OR listed.effect_id = ANY (:effect_ids))
  AND (:run_id::uuid IS NULL OR listed.run_id = :run_id)
  AND (:batch_id::uuid IS NULL OR listed.batch_id = :batch_id)
  AND (:client_reference::text IS NULL OR listed.id IN (
      SELECT id FROM ai_jobs
      WHERE user_id = :user_id AND client_reference = :client_reference AND id < :before AND id >= :since
      ORDER BY id DESC LIMIT :max_read))
  AND (:created_from::timestamptz IS NULL OR listed.created_at >= :created_from)
  AND (:created_to::timestamptz IS NULL OR listed.created_at < :created_to)
  AND (:patterns::text[] IS NULL OR listed.id IN (
      SELECT d.job_id FROM (
          SELECT job_id, search_text FROM job_descriptions
          WHERE user_id = :user_id AND job_id < :before AND job_id >= :since
          ORDER BY job_id DESC LIMIT :max_read
      ) d
      WHERE d.search_text LIKE ALL (:patterns)))

-- name: list_jobs
-- Newest first. Filters may match few jobs, so at most :max_read jobs are read: the inner LIMIT bounds the reading,
-- and the outer one ends it when the page is full. The inner query reads only its index, which has all filtered
-- columns; for an active job it does not have the status, which is read from the job's row (migration 0020). Files are
-- read by files_by_ids. A user belongs to one tenant: rows are read by the user's index, and the tenant is checked
-- afterwards. If the tenant were compared beside the user, the planner would read all rows of the tenant from the
-- newest on, which is slow for a user without recent jobs.
SELECT page.id, page.kind, page.actor, page.status, page.medium, page.effect_id, page.run_id, page.cost,
    page.created_at, page.submitted_at, page.started_at, page.completed_at, page.error ->> 'type' AS error_type,
    left(page.error ->> 'message', 500) AS error_message, described.title, described.input_name,
    left(described.prompt, 200) AS prompt, progress.percent, progress.message, progress.updated_at,
    page.input_file_ids[1] AS input_file_id, page.output_file_id, made.files AS output_count,
    page.client_reference, page.batch_id, page.batch_item
FROM (
    SELECT job.tenant_id, job.id, job.user_id, job.kind, job.actor, job.status, job.medium, job.effect_id, job.run_id,
        job.cost, job.created_at, job.submitted_at, job.started_at, job.completed_at, job.error, job.input_file_ids,
        job.output_file_id, job.charge_cycle, job.lease_seq, job.client_reference,
        job.batch_id, job.batch_item
    FROM (
        SELECT id, tenant_id, kind, actor, medium, effect_id, run_id, batch_id, created_at, charge_cycle, outcome,
            outcome_cycle, deleted_at
        FROM ai_jobs
        WHERE user_id = :user_id AND id < :before AND id >= :since
        ORDER BY id DESC LIMIT :max_read
    ) listed
    JOIN ai_jobs job ON job.tenant_id = listed.tenant_id AND job.id = listed.id
    WHERE listed.tenant_id = :tenant_id AND listed.deleted_at IS NULL
      AND (:statuses::text[] IS NULL OR job.status = ANY (:statuses))
      AND (:statuses::text[] IS NULL OR listed.outcome_cycle IS DISTINCT FROM listed.charge_cycle
           OR listed.outcome = ANY (:statuses))
      AND {is_listed}
    ORDER BY listed.id DESC LIMIT :limit
) page
LEFT JOIN job_descriptions described
    ON described.tenant_id = page.tenant_id AND described.user_id = page.user_id AND described.job_id = page.id
LEFT JOIN job_progress progress
    ON progress.tenant_id = page.tenant_id AND progress.job_id = page.id AND page.status = 'processing'
    AND progress.charge_cycle = page.charge_cycle AND progress.lease_seq = page.lease_seq
CROSS JOIN LATERAL (
    SELECT count(*) AS files FROM files f
    WHERE f.tenant_id = page.tenant_id AND f.job_id = page.id AND f.deleted_at IS NULL
) made
ORDER BY page.id DESC

-- name: count_jobs
-- The jobs that list_jobs lists, by status. The row of a job is read only if its index entry has no outcome of the last
-- cycle.
SELECT status, count(*) AS jobs FROM (
    SELECT CASE WHEN listed.outcome_cycle = listed.charge_cycle THEN listed.outcome
            ELSE (SELECT j.status FROM ai_jobs j WHERE j.tenant_id = listed.tenant_id AND j.id = listed.id)
            END AS status
    FROM (
        SELECT id, tenant_id, kind, actor, medium, effect_id, run_id, batch_id, created_at, charge_cycle, outcome,
            outcome_cycle, deleted_at
        FROM ai_jobs
        WHERE user_id = :user_id AND id < :before AND id >= :since
        ORDER BY id DESC LIMIT :max_read
    ) listed
    WHERE listed.tenant_id = :tenant_id AND listed.deleted_at IS NULL
      AND {is_listed}
) counted
GROUP BY status

-- name: last_read
-- The last of the :max_read jobs that list_jobs reads; no row if there are fewer.
SELECT id FROM (
    SELECT tenant_id, id FROM ai_jobs
    WHERE user_id = :user_id AND id < :before AND id >= :since
    ORDER BY id DESC OFFSET :max_read - 1 LIMIT 1
) listed
WHERE tenant_id = :tenant_id

-- name: outputs_of_jobs
-- The outputs of the jobs, in the order of the ids, with the number of each output of a job.
SELECT wanted.id AS job_id, job.created_at AS job_created_at, described.title, output.id, output.name,
    output.mime_type, output.size, output.path, output.disk, output.created_at, described.input_name, job.batch_item,
    row_number() OVER (PARTITION BY wanted.place ORDER BY output.id) AS number
FROM unnest(:job_ids::uuid[]) WITH ORDINALITY AS wanted (id, place)
JOIN ai_jobs job ON job.tenant_id = :tenant_id AND job.id = wanted.id
JOIN files output ON output.tenant_id = job.tenant_id AND output.job_id = job.id
LEFT JOIN job_descriptions described
    ON described.tenant_id = job.tenant_id AND described.user_id = job.user_id AND described.job_id = job.id
WHERE job.user_id = :user_id AND job.deleted_at IS NULL AND output.deleted_at IS NULL AND output.status = 'ready'
ORDER BY wanted.place, output.id

-- name: shared_job
-- The files that a public link shows: the input of the job, then its outputs, the main output first.
SELECT described.title, described.prompt, job.kind, job.tenant_id, file.place, file.id, file.path, file.disk,
    file.mime_type, shown.width, shown.height, shown.duration_seconds
FROM ai_jobs job
LEFT JOIN job_descriptions described
    ON described.tenant_id = job.tenant_id AND described.user_id = job.user_id AND described.job_id = job.id
CROSS JOIN LATERAL (
    SELECT 0 AS place, id, path, disk, mime_type FROM files
    WHERE tenant_id = job.tenant_id AND id = job.input_file_ids[1] AND status = 'ready' AND deleted_at IS NULL
    UNION ALL
    (SELECT CASE WHEN id = job.output_file_id THEN 1 ELSE 2 END AS place, id, path, disk, mime_type FROM files
    WHERE tenant_id = job.tenant_id AND job_id = job.id AND status = 'ready' AND deleted_at IS NULL
    ORDER BY 1, id LIMIT :max_rows)
) file
LEFT JOIN file_previews shown
    ON shown.tenant_id = job.tenant_id AND shown.file_id = file.id AND shown.status = 'ready'
WHERE job.tenant_id = :tenant_id AND job.id = :job_id AND job.user_id = :user_id AND job.status = 'completed'
  AND job.deleted_at IS NULL
ORDER BY file.place, file.id
