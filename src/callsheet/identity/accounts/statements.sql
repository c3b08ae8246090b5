-- database: central

-- name: emptiest_pool
SELECT p.name FROM pools p LEFT JOIN tenants t ON t.db_pool = p.name
GROUP BY p.name, p.created_at
ORDER BY p.name = ANY (:unavailable::text[]), count(t.id), p.created_at, p.name LIMIT 1

-- name: pool_exists
SELECT EXISTS (SELECT FROM pools WHERE name = :name)

-- name: find_tenant
SELECT id, slug, name, db_pool AS pool, created_at, disabled_at FROM tenants WHERE slug = :slug

-- name: get_tenant
SELECT id, slug, name, db_pool AS pool, created_at, disabled_at FROM tenants WHERE id = :tenant_id

-- name: create_tenant
INSERT INTO tenants (id, slug, name, db_pool) VALUES (:id, :slug, :name, :pool)
ON CONFLICT (slug) DO NOTHING
RETURNING id, slug, name, db_pool AS pool, created_at, disabled_at

-- name: list_tenants
SELECT id, slug, name, db_pool AS pool, created_at, disabled_at FROM tenants
WHERE (:only::uuid IS NULL OR id = :only) AND (:before::uuid IS NULL OR id < :before)
  AND (:pattern::text IS NULL OR slug LIKE :pattern OR lower(name) LIKE :pattern)
ORDER BY id DESC LIMIT :limit

-- name: create_user
INSERT INTO users (id, tenant_id, email, name, password_hash, role)
VALUES (:id, :tenant_id, :email, :name, :password_hash, :role)
ON CONFLICT (email) DO NOTHING
RETURNING id, tenant_id, (SELECT t.slug FROM tenants t WHERE t.id = users.tenant_id) AS tenant, email, name, role,
    external_id, created_at, disabled_at

-- name: find_user
SELECT u.id, u.tenant_id, t.slug AS tenant, u.email, u.name, u.role, u.external_id, u.created_at, u.disabled_at
FROM users u JOIN tenants t ON t.id = u.tenant_id
WHERE u.email = :email

-- name: list_users
SELECT u.id, u.tenant_id, t.slug AS tenant, u.email, u.name, u.role, u.external_id, u.created_at, u.disabled_at
FROM users u JOIN tenants t ON t.id = u.tenant_id
WHERE (:tenant::text IS NULL OR t.slug = :tenant) AND (:only::uuid IS NULL OR t.id = :only)
  AND (:before::uuid IS NULL OR u.id < :before) AND u.deleted_at IS NULL
  AND (:pattern::text IS NULL OR u.email LIKE :pattern OR lower(u.name) LIKE :pattern
    OR lower(u.external_id) LIKE :pattern)
ORDER BY u.id DESC LIMIT :limit

-- name: pool_of_tenant
SELECT db_pool FROM tenants WHERE id = :tenant_id

-- name: find_owner
SELECT tenant_id FROM users WHERE id = :user_id

-- name: external_ids
SELECT id, external_id FROM users
WHERE id = ANY (:ids::uuid[]) AND tenant_id = :tenant_id AND external_id IS NOT NULL
