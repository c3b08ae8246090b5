-- needs code: 0034
-- outside a transaction
DROP INDEX CONCURRENTLY IF EXISTS dispatches_of_lane;
