-- Which tenants this pool serves. Every tenant row of this database refers to it, so that a row routed to the wrong
-- pool is refused by the database and not only avoided by code.
CREATE TABLE pool_tenants (
    tenant_id   uuid PRIMARY KEY,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
