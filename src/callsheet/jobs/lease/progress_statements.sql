-- database: pool
-- owns: job_progress

-- name: record_progress
-- Stores progress only if the job runs under exactly this cycle and lease. The job's row is not locked: a job that ends
-- at this moment leaves a row, which readers skip and the sweep removes. A report of an older lease never replaces one
-- of a newer lease. Within one lease, NULL values of a report keep the earlier values.
WITH report AS MATERIALIZED (
    SELECT * FROM unnest(:tenant_ids::uuid[], :job_ids::uuid[], :cycles::integer[], :lease_seqs::bigint[],
        :percents::float8[], :messages::text[], :elapsed::bigint[], :previews::bytea[], :preview_types::text[],
        :node_ids::text[])
        AS r (tenant_id, job_id, charge_cycle, lease_seq, percent, message, elapsed_ms, preview, preview_type, node_id)
    ORDER BY tenant_id, job_id
), running_job AS MATERIALIZED (
    SELECT r.tenant_id, r.job_id, j.user_id, r.charge_cycle, r.lease_seq, r.percent, r.message, r.elapsed_ms, r.preview,
        r.preview_type, r.node_id
    FROM report r CROSS JOIN LATERAL (
        SELECT user_id FROM ai_jobs
        WHERE tenant_id = r.tenant_id AND id = r.job_id AND status = 'processing'
          AND charge_cycle = r.charge_cycle AND lease_seq = r.lease_seq
        LIMIT 1
    ) j
)
INSERT INTO job_progress AS p (
    tenant_id, job_id, user_id, charge_cycle, lease_seq, percent, message, elapsed_ms, updated_at, preview,
    preview_type, preview_at, node_id)
SELECT tenant_id, job_id, user_id, charge_cycle, lease_seq, percent, message, elapsed_ms, clock_timestamp(), preview,
    preview_type, CASE WHEN preview IS NOT NULL THEN clock_timestamp() END, node_id
FROM running_job
ON CONFLICT (tenant_id, job_id) DO UPDATE SET
    charge_cycle = excluded.charge_cycle,
    lease_seq = excluded.lease_seq,
    percent = CASE WHEN (p.charge_cycle, p.lease_seq) = (excluded.charge_cycle, excluded.lease_seq)
                   THEN coalesce(excluded.percent, p.percent) ELSE excluded.percent END,
    message = CASE WHEN (p.charge_cycle, p.lease_seq) = (excluded.charge_cycle, excluded.lease_seq)
                   THEN coalesce(excluded.message, p.message) ELSE excluded.message END,
    elapsed_ms = CASE WHEN (p.charge_cycle, p.lease_seq) = (excluded.charge_cycle, excluded.lease_seq)
                      THEN coalesce(excluded.elapsed_ms, p.elapsed_ms) ELSE excluded.elapsed_ms END,
    updated_at = excluded.updated_at,
    preview = CASE WHEN (p.charge_cycle, p.lease_seq) = (excluded.charge_cycle, excluded.lease_seq)
                   THEN coalesce(excluded.preview, p.preview) ELSE excluded.preview END,
    preview_type = CASE WHEN (p.charge_cycle, p.lease_seq) = (excluded.charge_cycle, excluded.lease_seq)
                        THEN coalesce(excluded.preview_type, p.preview_type) ELSE excluded.preview_type END,
    preview_at = CASE WHEN (p.charge_cycle, p.lease_seq) = (excluded.charge_cycle, excluded.lease_seq)
                      THEN coalesce(excluded.preview_at, p.preview_at) ELSE excluded.preview_at END,
    node_id = CASE WHEN (p.charge_cycle, p.lease_seq) = (excluded.charge_cycle, excluded.lease_seq)
                   THEN coalesce(excluded.node_id, p.node_id) ELSE excluded.node_id END
WHERE (p.charge_cycle, p.lease_seq) <= (excluded.charge_cycle, excluded.lease_seq)
RETURNING tenant_id, job_id, user_id

-- name: progress_of_jobs
-- The latest progress of each running job, only of its current run. Without the previews, because they are large.
SELECT p.job_id, p.percent, p.message, p.elapsed_ms, p.node_id, p.updated_at, p.preview_at
FROM unnest(:job_ids::uuid[]) AS wanted (job_id) CROSS JOIN LATERAL (
    SELECT tenant_id, job_id, charge_cycle, lease_seq, percent, message, elapsed_ms, node_id, updated_at, preview_at
    FROM job_progress
    WHERE tenant_id = :tenant_id AND job_id = wanted.job_id LIMIT 1
) p CROSS JOIN LATERAL (
    SELECT FROM ai_jobs j
    WHERE j.tenant_id = p.tenant_id AND j.id = p.job_id AND j.status = 'processing'
      AND j.charge_cycle = p.charge_cycle AND j.lease_seq = p.lease_seq
    LIMIT 1
) j

-- name: progress_of_leases
-- The same for running jobs of several tenants.
SELECT p.tenant_id, p.job_id, p.percent, p.message
FROM unnest(:tenant_ids::uuid[], :job_ids::uuid[]) AS wanted (tenant_id, job_id)
JOIN job_progress p ON p.tenant_id = wanted.tenant_id AND p.job_id = wanted.job_id
JOIN ai_jobs j ON j.tenant_id = p.tenant_id AND j.id = p.job_id AND j.status = 'processing'
    AND j.charge_cycle = p.charge_cycle AND j.lease_seq = p.lease_seq

-- name: progress_of_user
-- The same for all running jobs of a user.
SELECT p.job_id, p.percent, p.message, p.elapsed_ms, p.node_id, p.updated_at, p.preview_at
FROM job_progress p CROSS JOIN LATERAL (
    SELECT FROM ai_jobs j
    WHERE j.tenant_id = p.tenant_id AND j.id = p.job_id AND j.status = 'processing'
      AND j.charge_cycle = p.charge_cycle AND j.lease_seq = p.lease_seq
    LIMIT 1
) j
WHERE p.user_id = :user_id AND p.tenant_id = :tenant_id
ORDER BY p.job_id LIMIT :limit

-- name: progress_of_tenant
-- One page for the stream of a tenant, by key after the last row of the page before. Rows of runs that have ended are
-- in the page, too, so a page costs the same whatever the sweep has left.
SELECT p.job_id, p.user_id, p.percent, p.message, p.elapsed_ms, p.node_id, p.updated_at,
    EXISTS (
        SELECT FROM ai_jobs j
        WHERE j.tenant_id = :tenant_id AND j.id = p.job_id AND j.status = 'processing'
          AND j.charge_cycle = p.charge_cycle AND j.lease_seq = p.lease_seq
    ) AS is_running
FROM (
    SELECT job_id, user_id, charge_cycle, lease_seq, percent, message, elapsed_ms, node_id, updated_at
    FROM job_progress
    WHERE tenant_id = :tenant_id AND job_id > :after
    ORDER BY job_id LIMIT :limit
) p
ORDER BY p.job_id

-- name: previews_of_jobs
-- Runs after the progress was read, so only for running jobs. A row may have become newer since then.
SELECT p.job_id, p.preview, p.preview_type, p.preview_at
FROM unnest(:job_ids::uuid[]) AS wanted (job_id) CROSS JOIN LATERAL (
    SELECT job_id, preview, preview_type, preview_at FROM job_progress
    WHERE tenant_id = :tenant_id AND job_id = wanted.job_id LIMIT 1
) p
WHERE p.preview IS NOT NULL

-- name: sweep_progress
-- Deletes rows of runs that have ended. Each call reads one page by key after the last row of the page before; it
-- returns how many rows it read, and the last of them.
WITH page AS MATERIALIZED (
    SELECT tenant_id, job_id, charge_cycle, lease_seq FROM job_progress
    WHERE (tenant_id, job_id) > (:after_tenant::uuid, :after_job::uuid)
    ORDER BY tenant_id, job_id LIMIT :limit
), outdated_progress AS MATERIALIZED (
    SELECT page.tenant_id, page.job_id, page.charge_cycle, page.lease_seq FROM page
    WHERE NOT EXISTS (
        SELECT FROM ai_jobs j
        WHERE j.tenant_id = page.tenant_id AND j.id = page.job_id AND j.status = 'processing'
          AND j.charge_cycle = page.charge_cycle AND j.lease_seq = page.lease_seq)
), deleted_progress AS (
    DELETE FROM job_progress p USING outdated_progress o
    WHERE p.tenant_id = o.tenant_id AND p.job_id = o.job_id AND p.charge_cycle = o.charge_cycle
      AND p.lease_seq = o.lease_seq
    RETURNING p.job_id
)
SELECT (SELECT count(*) FROM page) AS rows_read, (SELECT count(*) FROM deleted_progress) AS removed,
    last.tenant_id, last.job_id
FROM (SELECT 1) AS one LEFT JOIN LATERAL (
    SELECT tenant_id, job_id FROM page ORDER BY tenant_id DESC, job_id DESC LIMIT 1
) last ON true
