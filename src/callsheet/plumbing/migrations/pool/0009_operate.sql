-- What operators need in each pool: tokens by provider, jobs of all tenants, and the jobs of bulk actions.

CREATE TABLE tokens_by_provider (
    at        timestamptz NOT NULL,
    provider  text NOT NULL,
    tokens    numeric NOT NULL,
    PRIMARY KEY (at, provider),
    CONSTRAINT provider_is_not_empty CHECK (provider <> ''),
    CONSTRAINT tokens_are_not_negative CHECK (tokens >= 0)
) WITH (fillfactor = 70);
COMMENT ON TABLE tokens_by_provider IS
    'Tokens of a provider''s jobs that ended in the ten minutes from `at`. Each row is counted again from the jobs and '
    'the ledger until its time is over, so that a crash or a second control plane counts nothing twice.';

CREATE TABLE tokens_by_provider_progress (
    only_row       boolean PRIMARY KEY DEFAULT true,
    counted_until  timestamptz NOT NULL,
    CONSTRAINT there_is_one_row CHECK (only_row)
);
COMMENT ON TABLE tokens_by_provider_progress IS 'Until when tokens are counted. One row.';

CREATE TABLE bulk_action_jobs (
    bulk_action_id  uuid NOT NULL,
    tenant_id       uuid NOT NULL,
    job_id          uuid NOT NULL,
    charge_cycle    integer NOT NULL,
    outcome         text,
    code            text,
    message         text,
    PRIMARY KEY (bulk_action_id, tenant_id, job_id),
    CONSTRAINT job_exists FOREIGN KEY (tenant_id, job_id) REFERENCES ai_jobs (tenant_id, id),
    CONSTRAINT outcome_is_known CHECK (outcome IN ('done', 'refused')),
    CONSTRAINT refused_means_a_code CHECK ((outcome = 'refused') = (code IS NOT NULL))
);
COMMENT ON TABLE bulk_action_jobs IS 'A job of a bulk action, which central has, as it was found.';
COMMENT ON COLUMN bulk_action_jobs.charge_cycle IS 'The action changes the job in this charge cycle only.';
COMMENT ON COLUMN bulk_action_jobs.outcome IS 'NULL: not tried yet.';
COMMENT ON COLUMN bulk_action_jobs.code IS 'Why it was refused: a code for programs. `message` is the sentence.';
CREATE INDEX open_jobs_of_bulk_action ON bulk_action_jobs (bulk_action_id, tenant_id, job_id) WHERE outcome IS NULL;

CREATE TABLE bulk_action_scans (
    bulk_action_id   uuid PRIMARY KEY,
    read_down_to   uuid NOT NULL,
    is_complete      boolean NOT NULL
);
COMMENT ON TABLE bulk_action_scans IS 'How far the jobs of a bulk action were searched in this pool.';
COMMENT ON COLUMN bulk_action_scans.read_down_to IS 'Jobs with this id and larger ones were read.';

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
