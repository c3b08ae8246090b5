-- Sessions of workers in the order in which they ended: old ones are deleted.
-- needs code: any
-- outside a transaction
DROP INDEX CONCURRENTLY IF EXISTS ended_sessions;
CREATE INDEX CONCURRENTLY ended_sessions ON worker_sessions (ended_at) WHERE ended_at IS NOT NULL;
