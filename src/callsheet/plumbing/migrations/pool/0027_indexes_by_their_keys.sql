-- Each of these indexes serves only statements that compare its key, because only those imply that the key is not null.
-- The indexes before them also fitted every other statement about active jobs, active runs or open slots. Where tables
-- are small, PostgreSQL takes the newest of all indexes that fit, and a dump and restore changes which one that is.
-- needs code: any
-- outside a transaction
DROP INDEX CONCURRENTLY IF EXISTS deadlines_of_active_jobs;
CREATE INDEX CONCURRENTLY deadlines_of_active_jobs ON ai_jobs (deadline_at)
    WHERE completed_at IS NULL AND deadline_at IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS jobs_by_deadline;
DROP INDEX CONCURRENTLY IF EXISTS active_runs_due;
CREATE INDEX CONCURRENTLY active_runs_due ON pipeline_runs (due_at) WHERE status = 'active' AND due_at IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS runs_due;
DROP INDEX CONCURRENTLY IF EXISTS tenants_of_open_slots;
CREATE INDEX CONCURRENTLY tenants_of_open_slots ON candidate_slots (tenant_id)
    WHERE status = 'open' AND tenant_id IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS open_slots_of_tenant;
