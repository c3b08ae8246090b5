-- Jobs in the order in which they ended: the events of old ones are deleted.
-- needs code: any
-- outside a transaction
DROP INDEX CONCURRENTLY IF EXISTS jobs_by_end;
CREATE INDEX CONCURRENTLY jobs_by_end ON ai_jobs (completed_at, id) WHERE completed_at IS NOT NULL;
