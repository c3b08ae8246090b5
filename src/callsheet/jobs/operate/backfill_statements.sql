-- database: pool

-- name: jobs_to_describe
-- The next jobs in key order. For jobs that have a description or were deleted, only the key is needed. A very large
-- payload is not read. With NOT EXISTS, every step would read all descriptions into a hash table.
SELECT j.tenant_id, j.id, j.user_id, j.kind, j.actor, j.effect_id, j.is_bare, bare.payload, bare.input_names,
    bare.medium
FROM (
    SELECT job.tenant_id, job.id, job.user_id, job.kind, job.actor, job.effect_id, job.deleted_at IS NULL AND (
        SELECT d.job_id FROM job_descriptions d WHERE d.user_id = job.user_id AND d.job_id = job.id LIMIT 1
    ) IS NULL AS is_bare
    FROM (
        SELECT tenant_id, id, user_id, kind, actor, effect_id, deleted_at FROM ai_jobs
        WHERE (tenant_id, id) > (:tenant_id, :id) ORDER BY tenant_id, id LIMIT :limit
    ) job
) j
LEFT JOIN LATERAL (
    SELECT CASE WHEN pg_column_size(b.payload) <= :most_bytes::integer THEN b.payload END AS payload,
        CASE WHEN coalesce(output.mime_type, b.payload ->> 'output_mime_type') IS NOT NULL
            THEN medium_of(coalesce(output.mime_type, b.payload ->> 'output_mime_type')) END AS medium,
        ARRAY(
            SELECT f.name FROM unnest(b.input_file_ids) WITH ORDINALITY AS input (id, place)
            CROSS JOIN LATERAL (
                SELECT name FROM files WHERE tenant_id = b.tenant_id AND id = input.id AND deleted_at IS NULL LIMIT 1
            ) f
            ORDER BY input.place) AS input_names
    FROM ai_jobs b
    LEFT JOIN LATERAL (
        SELECT mime_type FROM files WHERE tenant_id = b.tenant_id AND id = b.output_file_id LIMIT 1
    ) output ON true
    WHERE j.is_bare AND b.tenant_id = j.tenant_id AND b.id = j.id
    LIMIT 1
) bare ON true
ORDER BY j.tenant_id, j.id

-- name: describe_jobs
-- If the user deletes a job meanwhile, no description stays: the row lock makes one transaction wait for the other.
WITH new_description AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(:jobs::jsonb) AS d (
        tenant_id uuid, job_id uuid, title text, input_name text, prompt text, medium text, search_text text)
    ORDER BY tenant_id, job_id
), described_job AS MATERIALIZED (
    SELECT d.tenant_id, locked.user_id, d.job_id, d.title, d.input_name, d.prompt, d.medium, d.search_text
    FROM new_description d CROSS JOIN LATERAL (
        SELECT j.user_id FROM ai_jobs j
        WHERE j.tenant_id = d.tenant_id AND j.id = d.job_id AND j.deleted_at IS NULL
        FOR NO KEY UPDATE
    ) locked
), updated_job AS (
    UPDATE ai_jobs j SET medium = described_job.medium FROM described_job
    WHERE j.tenant_id = described_job.tenant_id AND j.id = described_job.job_id AND j.medium IS NULL
      AND described_job.medium IS NOT NULL
)
INSERT INTO job_descriptions (tenant_id, user_id, job_id, title, input_name, prompt, search_text)
SELECT tenant_id, user_id, job_id, title, input_name, prompt, search_text FROM described_job
ON CONFLICT (user_id, job_id) DO NOTHING

-- name: jobs_to_fingerprint
-- The next jobs in key order, with their errors and the fingerprints that these have now.
SELECT tenant_id, id, charge_cycle,
    CASE WHEN error IS NOT NULL
        THEN jsonb_build_object('type', error -> 'type',
            'message', left(coalesce(error ->> 'reported', error ->> 'message'), :longest::integer))
        END AS error,
    error_fingerprint, completed_at IS NOT NULL AND outcome_cycle IS DISTINCT FROM charge_cycle AS has_no_outcome
FROM ai_jobs
WHERE (tenant_id, id) > (:tenant_id, :id) ORDER BY tenant_id, id LIMIT :limit

-- name: fingerprint_jobs
-- Writes the outcome and the fingerprint of jobs that ended before these columns existed, or before fingerprints had
-- today's rules. A job that was retried meanwhile has another charge cycle, and a deleted job has no error: neither
-- gets a fingerprint.
WITH failed_job AS MATERIALIZED (
    SELECT f.tenant_id, f.job_id, f.error_fingerprint FROM jsonb_to_recordset(:jobs::jsonb) AS f (
        tenant_id uuid, job_id uuid, charge_cycle integer, error_fingerprint text)
    CROSS JOIN LATERAL (
        SELECT FROM ai_jobs j
        WHERE j.tenant_id = f.tenant_id AND j.id = f.job_id AND j.charge_cycle = f.charge_cycle
          AND j.completed_at IS NOT NULL
        FOR NO KEY UPDATE
    ) locked
)
UPDATE ai_jobs j SET outcome = j.status, outcome_cycle = j.charge_cycle,
    error_fingerprint = CASE WHEN j.error IS NOT NULL THEN failed_job.error_fingerprint END
FROM failed_job
WHERE j.tenant_id = failed_job.tenant_id AND j.id = failed_job.job_id
