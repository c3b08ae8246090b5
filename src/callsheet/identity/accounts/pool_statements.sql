-- database: pool
-- owns: pool_tenants

-- name: admit_tenant
INSERT INTO pool_tenants (tenant_id) VALUES (:tenant_id) ON CONFLICT DO NOTHING
