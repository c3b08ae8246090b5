-- Which tenants this pool serves. Users and keys are in central.

CREATE TABLE pool_tenants (
    tenant_id   uuid PRIMARY KEY,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE pool_tenants IS
    'A tenant of this pool. Every row of a tenant refers to it, so that the database refuses a row that is routed to '
    'the wrong pool.';
