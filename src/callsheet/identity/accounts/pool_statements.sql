-- database: pool
-- owns: pool_tenants

-- name: admit_tenant
INSERT INTO pool_tenants (tenant_id) VALUES (:tenant_id) ON CONFLICT DO NOTHING

-- name: set_pays_for_users
-- Returns no row if it was so already. Jobs that are active were paid, and stay as they are.
UPDATE pool_tenants SET pays_for_users = :pays_for_users
WHERE tenant_id = :tenant_id AND pays_for_users <> :pays_for_users
RETURNING pays_for_users
