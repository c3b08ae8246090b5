-- needs code: any
-- outside a transaction
--
-- The reserved bytes of a user and of a tenant are summed for every new upload.
DROP INDEX CONCURRENTLY IF EXISTS reserved_uploads;
CREATE INDEX CONCURRENTLY reserved_uploads ON upload_sweeps (tenant_id, user_id) INCLUDE (reserved_bytes)
    WHERE reserved_bytes > 0;
