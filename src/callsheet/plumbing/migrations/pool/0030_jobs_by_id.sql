-- Jobs of all tenants in the order of their ids: the active ones, the ended ones, those without a result, and those of one
-- error; and errors in the order of time. A job is in the index of active jobs or in that of ended ones, so that its two
-- entries cost as much as those of one index, and a few active jobs are found among a million ended ones.
-- needs code: any
-- outside a transaction
DROP INDEX CONCURRENTLY IF EXISTS active_jobs_by_id;
CREATE INDEX CONCURRENTLY active_jobs_by_id ON ai_jobs (id) INCLUDE (tenant_id)
    WHERE completed_at IS NULL AND id IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS ended_jobs_by_id;
CREATE INDEX CONCURRENTLY ended_jobs_by_id ON ai_jobs (id) INCLUDE (tenant_id)
    WHERE completed_at IS NOT NULL AND id IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS unsuccessful_jobs_by_id;
CREATE INDEX CONCURRENTLY unsuccessful_jobs_by_id ON ai_jobs (id) INCLUDE (tenant_id)
    WHERE outcome IN ('failed', 'canceled', 'expired') AND id IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS jobs_of_error;
CREATE INDEX CONCURRENTLY jobs_of_error ON ai_jobs (error_fingerprint, id) INCLUDE (tenant_id)
    WHERE error_fingerprint IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS errors_by_end;
CREATE INDEX CONCURRENTLY errors_by_end ON ai_jobs (completed_at) INCLUDE (error_fingerprint, tenant_id, workflow_id)
    WHERE error_fingerprint IS NOT NULL AND completed_at IS NOT NULL;
