-- database: pool

-- name: list_jobs
-- Newest first. A filter may match few jobs, so only as many as `looked_at` are looked at; the inner limit keeps the filters
-- above it, and the outer one ends the reading as soon as a page is full. The inner query reads its index alone,
-- which has all that is filtered by; what it cannot say, because the job is active, the job's row says (migration 0020). See
-- jobs/statements.sql, list_jobs, for how it is written. Texts are read once, from their index alone, into a hash of the
-- jobs that match: below an OR it would not be a join.
SELECT page.id, page.kind, page.actor, page.status, page.medium, page.effect_id, page.run_id, page.cost, page.created_at,
    page.submitted_at, page.started_at, page.completed_at, page.error ->> 'type' AS error_type,
    left(page.error ->> 'message', 500) AS error_message, described.title, described.input_name, described.prompt,
    word.percent, word.message, word.updated_at,
    input.id AS input_id, input.name AS input_file_name, input.mime_type AS input_mime_type, input.size AS input_size,
    input.path AS input_path, input.disk AS input_disk, input.status AS input_status,
    output.id AS output_id, output.name AS output_name, output.mime_type AS output_mime_type,
    output.size AS output_size, output.path AS output_path, output.disk AS output_disk, output.status AS output_status,
    shown_input.kind AS input_preview_kind, shown_input.status AS input_preview_status, shown_input.width AS input_width,
    shown_input.height AS input_height, shown_input.duration_seconds AS input_duration_seconds,
    shown_input.has_clip AS input_has_clip, shown_output.kind AS output_preview_kind,
    shown_output.status AS output_preview_status, shown_output.width AS output_width,
    shown_output.height AS output_height, shown_output.duration_seconds AS output_duration_seconds,
    shown_output.has_clip AS output_has_clip, page.tenant_id,
    made.files AS output_count
FROM (
    SELECT job.* FROM (
        SELECT id, tenant_id, kind, actor, medium, effect_id, run_id, created_at, charge_cycle, outcome, outcome_cycle,
            deleted_at
        FROM ai_jobs
        WHERE user_id = :user_id AND tenant_id IS NOT DISTINCT FROM :tenant_id AND id < :before AND id >= :since
        ORDER BY id DESC LIMIT :looked_at
    ) listed
    CROSS JOIN LATERAL (
        SELECT tenant_id, id, user_id, kind, actor, status, medium, effect_id, run_id, cost, created_at, submitted_at,
            started_at, completed_at, error, input_file_ids, output_file_id, charge_cycle, lease_seq
        FROM ai_jobs j
        WHERE j.tenant_id = listed.tenant_id AND j.id = listed.id
          AND (:statuses::text[] IS NULL OR j.status = ANY (:statuses))
        LIMIT 1
    ) job
    WHERE listed.deleted_at IS NULL
      AND (:statuses::text[] IS NULL OR listed.outcome_cycle IS DISTINCT FROM listed.charge_cycle
           OR listed.outcome = ANY (:statuses))
      AND (:kinds::text[] IS NULL OR listed.kind = ANY (:kinds))
      AND (:media::text[] IS NULL OR listed.medium = ANY (:media))
      AND (:actors::text[] IS NULL OR listed.actor = ANY (:actors))
      AND (:effect_ids::uuid[] IS NULL OR listed.effect_id = ANY (:effect_ids))
      AND (:run_id::uuid IS NULL OR listed.run_id = :run_id)
      AND (:created_from::timestamptz IS NULL OR listed.created_at >= :created_from)
      AND (:created_to::timestamptz IS NULL OR listed.created_at < :created_to)
      AND (:patterns::text[] IS NULL OR listed.id IN (
          SELECT d.job_id FROM (
              SELECT job_id, search_text FROM job_descriptions
              WHERE user_id = :user_id AND tenant_id IS NOT DISTINCT FROM :tenant_id AND job_id < :before AND job_id >= :since
              ORDER BY job_id DESC LIMIT :looked_at
          ) d
          WHERE d.search_text LIKE ALL (:patterns)))
    ORDER BY listed.id DESC LIMIT :limit
) page
LEFT JOIN LATERAL (
    SELECT d.title, d.input_name, left(d.prompt, 200) AS prompt FROM job_descriptions d
    WHERE d.user_id = page.user_id AND d.job_id = page.id AND d.tenant_id IS NOT DISTINCT FROM page.tenant_id LIMIT 1
) described ON true
LEFT JOIN LATERAL (
    SELECT percent, message, updated_at FROM job_progress p
    WHERE p.tenant_id = page.tenant_id AND p.job_id = page.id AND page.status = 'processing'
      AND p.charge_cycle = page.charge_cycle AND p.lease_seq = page.lease_seq
    LIMIT 1
) word ON true
LEFT JOIN LATERAL (
    SELECT * FROM files f
    WHERE f.tenant_id = page.tenant_id AND f.id = page.input_file_ids[1] AND f.deleted_at IS NULL LIMIT 1
) input ON true
LEFT JOIN LATERAL (
    SELECT * FROM files f
    WHERE f.tenant_id = page.tenant_id AND f.id = page.output_file_id AND f.deleted_at IS NULL LIMIT 1
) output ON true
LEFT JOIN LATERAL (
    SELECT * FROM file_previews p WHERE p.tenant_id = page.tenant_id AND p.file_id = input.id LIMIT 1
) shown_input ON true
LEFT JOIN LATERAL (
    SELECT * FROM file_previews p WHERE p.tenant_id = page.tenant_id AND p.file_id = output.id LIMIT 1
) shown_output ON true
LEFT JOIN LATERAL (
    SELECT count(*) AS files FROM files f
    WHERE f.job_id = page.id AND f.tenant_id IS NOT DISTINCT FROM page.tenant_id AND f.deleted_at IS NULL
) made ON true
ORDER BY page.id DESC

-- name: count_jobs
-- The same jobs by status.
SELECT coalesce(job.status, listed.outcome) AS status, count(*) AS jobs FROM (
    SELECT id, tenant_id, kind, actor, medium, effect_id, run_id, created_at, charge_cycle, outcome, outcome_cycle,
        deleted_at
    FROM ai_jobs
    WHERE user_id = :user_id AND tenant_id IS NOT DISTINCT FROM :tenant_id AND id < :before AND id >= :since
    ORDER BY id DESC LIMIT :looked_at
) listed
LEFT JOIN LATERAL (
    SELECT status FROM ai_jobs j
    WHERE j.tenant_id = listed.tenant_id AND j.id = listed.id
      AND listed.outcome_cycle IS DISTINCT FROM listed.charge_cycle
    LIMIT 1
) job ON true
WHERE listed.deleted_at IS NULL
  AND (:kinds::text[] IS NULL OR listed.kind = ANY (:kinds))
  AND (:media::text[] IS NULL OR listed.medium = ANY (:media))
  AND (:actors::text[] IS NULL OR listed.actor = ANY (:actors))
  AND (:effect_ids::uuid[] IS NULL OR listed.effect_id = ANY (:effect_ids))
  AND (:run_id::uuid IS NULL OR listed.run_id = :run_id)
  AND (:created_from::timestamptz IS NULL OR listed.created_at >= :created_from)
  AND (:created_to::timestamptz IS NULL OR listed.created_at < :created_to)
  AND (:patterns::text[] IS NULL OR listed.id IN (
      SELECT d.job_id FROM (
          SELECT job_id, search_text FROM job_descriptions
          WHERE user_id = :user_id AND tenant_id IS NOT DISTINCT FROM :tenant_id AND job_id < :before AND job_id >= :since
          ORDER BY job_id DESC LIMIT :looked_at
      ) d
      WHERE d.search_text LIKE ALL (:patterns)))
GROUP BY coalesce(job.status, listed.outcome)

-- name: last_looked_at
-- The last job that a reading of so many looks at; none where there are fewer.
SELECT id FROM ai_jobs
WHERE user_id = :user_id AND tenant_id IS NOT DISTINCT FROM :tenant_id AND id < :before AND id >= :since
ORDER BY id DESC OFFSET :looked_at - 1 LIMIT 1

-- name: outputs_of_jobs
-- What these jobs made, in the order of the ids, with the number of each output of a job.
SELECT wanted.id AS job_id, job.created_at AS job_created_at, described.title, output.id, output.name, output.size,
    output.path, output.disk, output.created_at,
    row_number() OVER (PARTITION BY wanted.place ORDER BY output.id) AS number
FROM unnest(:job_ids::uuid[]) WITH ORDINALITY AS wanted (id, place)
CROSS JOIN LATERAL (
    SELECT tenant_id, user_id, created_at FROM ai_jobs
    WHERE tenant_id = :tenant_id AND id = wanted.id AND user_id = :user_id AND deleted_at IS NULL LIMIT 1
) job
CROSS JOIN LATERAL (
    SELECT * FROM files
    WHERE job_id = wanted.id AND tenant_id IS NOT DISTINCT FROM :tenant_id AND deleted_at IS NULL AND status = 'ready'
) output
LEFT JOIN LATERAL (
    SELECT title FROM job_descriptions d
    WHERE d.user_id = job.user_id AND d.job_id = wanted.id AND d.tenant_id IS NOT DISTINCT FROM job.tenant_id LIMIT 1
) described ON true
ORDER BY wanted.place, output.id

-- name: shared_job
-- What a public link shows: a row for the file that the job worked on, then one for each that it made, the main one first.
SELECT described.title, described.prompt, job.kind, job.tenant_id, file.*, shown.width, shown.height, shown.duration_seconds
FROM (
    SELECT tenant_id, id, user_id, kind, input_file_ids, output_file_id FROM ai_jobs
    WHERE tenant_id = :tenant_id AND id = :job_id AND user_id = :user_id AND status = 'completed' AND deleted_at IS NULL
    LIMIT 1
) job
LEFT JOIN LATERAL (
    SELECT title, prompt FROM job_descriptions d
    WHERE d.user_id = job.user_id AND d.job_id = job.id AND d.tenant_id IS NOT DISTINCT FROM job.tenant_id LIMIT 1
) described ON true
CROSS JOIN LATERAL (
    (SELECT 0 AS place, id, path, disk, mime_type FROM files
    WHERE tenant_id = job.tenant_id AND id = job.input_file_ids[1] AND status = 'ready' AND deleted_at IS NULL LIMIT 1)
    UNION ALL
    (SELECT CASE WHEN id = job.output_file_id THEN 1 ELSE 2 END AS place, id, path, disk, mime_type FROM files
    WHERE job_id = job.id AND tenant_id IS NOT DISTINCT FROM job.tenant_id AND status = 'ready' AND deleted_at IS NULL
    ORDER BY 1, id LIMIT :most)
) file
LEFT JOIN LATERAL (
    SELECT width, height, duration_seconds FROM file_previews p
    WHERE p.tenant_id = job.tenant_id AND p.file_id = file.id AND p.status = 'ready' LIMIT 1
) shown ON true
ORDER BY file.place, file.id
