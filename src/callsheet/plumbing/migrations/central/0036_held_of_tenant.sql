-- needs code: any
-- outside a transaction
--
-- What tenants and users have in flight, as before, and the worker that has it. A lease sets worker_id, so PostgreSQL does not
-- take the new entry for a copy of one that was there. For such copies it looks for old ones to delete, in the table too,
-- whenever a page of the index is full. Nothing reads this index where no tenant has a limit, so pages were always full: this
-- took up to a tenth of PostgreSQL's time per lease.
DROP INDEX CONCURRENTLY IF EXISTS dispatches_held_of_tenant;
CREATE INDEX CONCURRENTLY dispatches_held_of_tenant ON ai_job_dispatches (tenant_id, user_id, worker_id)
    WHERE status <> 'queued';
DROP INDEX CONCURRENTLY IF EXISTS dispatches_of_tenant;
