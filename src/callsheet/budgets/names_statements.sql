-- database: central

-- name: user_of_tenant
SELECT EXISTS (SELECT FROM users WHERE tenant_id = :tenant_id AND id = :user_id)

-- name: key_of_tenant
SELECT EXISTS (SELECT FROM api_keys WHERE tenant_id = :tenant_id AND id = :key_id AND revoked_at IS NULL)

-- name: keys_of_user
SELECT id, name || ' (' || prefix || '…)' AS name FROM api_keys
WHERE tenant_id = :tenant_id AND user_id = :user_id AND id = ANY (:ids::uuid[]) AND revoked_at IS NULL

-- name: names
-- What people call users, keys and effects. A key is named with its first characters.
SELECT id, email AS name FROM users WHERE tenant_id = :tenant_id AND id = ANY (:ids::uuid[])
UNION ALL
SELECT id, name || ' (' || prefix || '…)' FROM api_keys WHERE tenant_id = :tenant_id AND id = ANY (:ids::uuid[])
UNION ALL
SELECT id, name FROM effects WHERE id = ANY (:ids::uuid[])
