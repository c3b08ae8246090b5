-- needs code: any
-- outside a transaction
--
-- Runs to remove, and runs that are old enough. The others are for the foreign keys of removed candidates: without them,
-- each removed candidate would be searched in all votes and slots.
DROP INDEX CONCURRENTLY IF EXISTS deleted_runs;
CREATE INDEX CONCURRENTLY deleted_runs ON pipeline_runs (due_at) WHERE deleted_at IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS ended_runs;
CREATE INDEX CONCURRENTLY ended_runs ON pipeline_runs (ended_at) WHERE ended_at IS NOT NULL AND deleted_at IS NULL;
DROP INDEX CONCURRENTLY IF EXISTS slots_of_parent;
CREATE INDEX CONCURRENTLY slots_of_parent ON candidate_slots (parent_id) WHERE parent_id IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS votes_for_candidate;
CREATE INDEX CONCURRENTLY votes_for_candidate ON votes (winner_id);
DROP INDEX CONCURRENTLY IF EXISTS votes_against_candidate;
CREATE INDEX CONCURRENTLY votes_against_candidate ON votes (loser_id);
