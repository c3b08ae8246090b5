-- Which tenants this pool serves. Users and keys are in central.

CREATE TABLE pool_tenants (
    tenant_id       uuid PRIMARY KEY,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    pays_for_users  boolean NOT NULL DEFAULT false,
    has_budgets     boolean NOT NULL DEFAULT false
);
COMMENT ON TABLE pool_tenants IS
    'A tenant of this pool. Every row of a tenant refers to it, so that the database refuses a row that is routed to '
    'the wrong pool.';
COMMENT ON COLUMN pool_tenants.pays_for_users IS
    'New jobs of all users are paid from the wallet of the tenant. False: from the wallet of the user.';
COMMENT ON COLUMN pool_tenants.has_budgets IS
    'Whether the tenant has budgets: a statement that takes tokens reads this row anyway.';
