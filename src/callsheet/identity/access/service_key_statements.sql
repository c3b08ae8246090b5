-- database: central

-- part: key_columns
id, name, prefix, scopes, created_at, expires_at, last_used_at, revoked_at

-- name: lock_tenant
-- New keys and new users of a tenant are counted one after the other.
SELECT id FROM tenants WHERE id = :tenant_id FOR NO KEY UPDATE

-- name: count_service_keys
SELECT count(*) FILTER (WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > clock_timestamp())) AS usable,
    count(*) FILTER (WHERE created_at > clock_timestamp() - make_interval(secs => :seconds)) AS new
FROM api_keys
WHERE tenant_id = :tenant_id AND user_id IS NULL

-- name: create_service_key
INSERT INTO api_keys (id, tenant_id, name, prefix, key_hash, scopes, expires_at)
VALUES (:id, :tenant_id, :name, :prefix, :key_hash, :scopes::text[], :expires_at)
RETURNING {key_columns}

-- name: list_service_keys
SELECT {key_columns} FROM api_keys
WHERE tenant_id = :tenant_id AND user_id IS NULL AND (:before::uuid IS NULL OR id < :before)
ORDER BY id DESC LIMIT :limit

-- name: get_service_key
SELECT {key_columns} FROM api_keys
WHERE id = :id AND tenant_id = :tenant_id AND user_id IS NULL

-- name: revoke_service_key
UPDATE api_keys SET revoked_at = clock_timestamp()
WHERE id = :id AND tenant_id = :tenant_id AND user_id IS NULL AND revoked_at IS NULL
RETURNING id

-- part: user_columns
id AS user_id, email, name, role, disabled_at IS NOT NULL AS is_disabled

-- name: find_user_by_id
SELECT {user_columns} FROM users WHERE tenant_id = :tenant_id AND id = :id::uuid AND deleted_at IS NULL

-- name: find_user_by_email
SELECT {user_columns} FROM users WHERE tenant_id = :tenant_id AND email = :email AND deleted_at IS NULL

-- name: find_user_by_external_id
SELECT {user_columns} FROM users WHERE tenant_id = :tenant_id AND external_id = :external_id AND deleted_at IS NULL

-- name: has_external_users
-- Whether the tenant has this many users with an external id.
SELECT EXISTS (
    SELECT FROM users WHERE tenant_id = :tenant_id AND external_id IS NOT NULL OFFSET :max_users - 1 LIMIT 1)

-- name: create_external_user
-- The user cannot sign in: no password matches the text in the place of the hash, and its mails reach no
-- person.
INSERT INTO users (id, tenant_id, email, password_hash, external_id)
VALUES (:id::uuid, :tenant_id, 'external-' || :id || '@users.invalid', '$argon2id$none', :external_id)
RETURNING {user_columns}
