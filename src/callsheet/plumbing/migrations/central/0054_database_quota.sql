-- The limit of the bytes that the jobs, runs and pipelines of one user take in the database.
-- needs code: any
ALTER TABLE tenant_quotas ADD COLUMN user_database_bytes bigint;
ALTER TABLE tenant_quotas ADD CONSTRAINT user_database_bytes_is_a_limit CHECK (user_database_bytes >= 0) NOT VALID;
