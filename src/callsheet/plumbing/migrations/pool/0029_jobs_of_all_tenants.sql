-- What operators need to find jobs of all tenants, to group their errors, and to act on many jobs.
-- needs code: 0001
--
-- The constraint of `backfills` is replaced by a wider one: all earlier code works with it.

-- Equal errors have equal fingerprints (jobs/machine/fingerprints.py). Null if the job has no error. A retry by the previous release
-- keeps it, so statements also check `error`.
ALTER TABLE ai_jobs ADD COLUMN error_fingerprint text;
ALTER TABLE backfills DROP CONSTRAINT backfills_name_check;
ALTER TABLE backfills ADD CONSTRAINT backfills_name_check
    CHECK (name IN ('job_descriptions', 'file_previews', 'error_fingerprints')) NOT VALID;
INSERT INTO backfills (name) SELECT 'error_fingerprints' WHERE EXISTS (SELECT FROM ai_jobs);

-- The jobs of a bulk action, which central has, as they were found: each is acted on in this charge cycle only.
CREATE TABLE bulk_action_jobs (
    bulk_action_id  uuid NOT NULL,
    tenant_id       uuid NOT NULL,
    job_id          uuid NOT NULL,
    charge_cycle    integer NOT NULL,
    -- Null: not tried yet.
    outcome         text CHECK (outcome IN ('done', 'refused')),
    -- Why it was refused.
    code            text,
    message         text,
    PRIMARY KEY (bulk_action_id, tenant_id, job_id),
    FOREIGN KEY (tenant_id, job_id) REFERENCES ai_jobs (tenant_id, id),
    CHECK ((outcome = 'refused') = (code IS NOT NULL))
);
CREATE INDEX open_jobs_of_bulk_action ON bulk_action_jobs (bulk_action_id, tenant_id, job_id) WHERE outcome IS NULL;

-- How far the jobs of a bulk action were looked for in this pool.
CREATE TABLE bulk_action_scans (
    bulk_action_id  uuid PRIMARY KEY,
    -- Jobs from this id on were looked at.
    looked_down_to  uuid NOT NULL,
    is_complete     boolean NOT NULL
);

-- The newest jobs of one source, whatever other filters say: at most `most`, with ids from `since` to below `before`. Each
-- source has its index. With the default of 1,000 rows, the planner would read all jobs of a table of some ten thousand.
CREATE FUNCTION newest_jobs(
    source text, of_tenant uuid, of_user uuid, of_fingerprint text, of_ids uuid[], since uuid, before uuid, most integer
) RETURNS TABLE (tenant_id uuid, id uuid) LANGUAGE plpgsql STABLE ROWS 100 AS $$
BEGIN
    CASE source
        WHEN 'all' THEN RETURN QUERY
            SELECT newest.tenant_id, newest.id FROM (
                (SELECT j.tenant_id, j.id FROM ai_jobs j
                WHERE j.completed_at IS NULL AND j.id >= since AND j.id < before ORDER BY j.id DESC LIMIT most)
                UNION ALL
                (SELECT j.tenant_id, j.id FROM ai_jobs j
                WHERE j.completed_at IS NOT NULL AND j.id >= since AND j.id < before ORDER BY j.id DESC LIMIT most)
            ) newest
            ORDER BY newest.id DESC LIMIT most;
        WHEN 'active' THEN RETURN QUERY
            SELECT j.tenant_id, j.id FROM ai_jobs j
            WHERE j.completed_at IS NULL AND j.id >= since AND j.id < before ORDER BY j.id DESC LIMIT most;
        WHEN 'ended' THEN RETURN QUERY
            SELECT j.tenant_id, j.id FROM ai_jobs j
            WHERE j.completed_at IS NOT NULL AND j.id >= since AND j.id < before ORDER BY j.id DESC LIMIT most;
        WHEN 'unsuccessful' THEN RETURN QUERY
            SELECT j.tenant_id, j.id FROM ai_jobs j
            WHERE j.outcome IN ('failed', 'canceled', 'expired') AND j.id >= since AND j.id < before
            ORDER BY j.id DESC LIMIT most;
        WHEN 'error' THEN RETURN QUERY
            SELECT j.tenant_id, j.id FROM ai_jobs j
            WHERE j.error_fingerprint = of_fingerprint AND j.id >= since AND j.id < before
            ORDER BY j.id DESC LIMIT most;
        WHEN 'tenant' THEN RETURN QUERY
            SELECT j.tenant_id, j.id FROM ai_jobs j
            WHERE j.tenant_id = of_tenant AND j.id >= since AND j.id < before ORDER BY j.id DESC LIMIT most;
        WHEN 'user' THEN RETURN QUERY
            SELECT j.tenant_id, j.id FROM ai_jobs j
            WHERE j.user_id = of_user AND j.id >= since AND j.id < before ORDER BY j.id DESC LIMIT most;
        WHEN 'ids' THEN RETURN QUERY
            SELECT named.tenant_id, named.id FROM (
                SELECT j.tenant_id, j.id FROM ai_jobs j
                WHERE j.completed_at IS NULL AND j.id = ANY (of_ids)
                UNION ALL
                SELECT j.tenant_id, j.id FROM ai_jobs j
                WHERE j.completed_at IS NOT NULL AND j.id = ANY (of_ids)
            ) named
            WHERE named.id >= since AND named.id < before ORDER BY named.id DESC LIMIT most;
    END CASE;
END $$;
