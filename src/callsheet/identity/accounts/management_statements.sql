-- database: central

-- name: get_user
SELECT u.id, u.tenant_id, t.slug AS tenant, t.db_pool AS pool, u.email, u.name, u.role, u.external_id,
    u.created_at, u.disabled_at, u.deleted_at
FROM users u JOIN tenants t ON t.id = u.tenant_id
WHERE u.id = :user_id

-- name: lock_user
SELECT u.id, u.tenant_id, t.slug AS tenant, t.db_pool AS pool, u.email, u.name, u.role, u.external_id,
    u.created_at, u.disabled_at, u.deleted_at
FROM users u JOIN tenants t ON t.id = u.tenant_id
WHERE u.id = :user_id AND u.deleted_at IS NULL
FOR NO KEY UPDATE OF u

-- name: lock_operators
-- Locks in the order of ids. After a wait PostgreSQL checks each row again, so that a user who is no longer an operator
-- is not returned.
SELECT u.id, u.tenant_id FROM users u JOIN tenants t ON t.id = u.tenant_id
WHERE u.role = 'operator' AND u.disabled_at IS NULL AND t.disabled_at IS NULL
ORDER BY u.id FOR NO KEY UPDATE OF u, t

-- name: change_role
UPDATE users SET role = :role WHERE id = :user_id

-- name: disable_user
UPDATE users SET disabled_at = clock_timestamp() WHERE id = :user_id RETURNING disabled_at

-- name: enable_user
UPDATE users SET disabled_at = NULL WHERE id = :user_id

-- name: anonymise_user
-- The e-mail address and the external id are free for another user. No password matches the text in the place of the
-- hash.
UPDATE users SET email = 'deleted-' || id || '@users.invalid', name = '', external_id = NULL,
    password_hash = '$argon2id$deleted', role = 'user', disabled_at = coalesce(disabled_at, clock_timestamp()),
    deleted_at = clock_timestamp()
WHERE id = :user_id
RETURNING email, name, role, external_id, disabled_at, deleted_at

-- name: anonymise_audit_log
UPDATE audit_logs SET details = details - '{email,address,external_id}'::text[]
WHERE subject_type = 'user' AND subject_id = :user_id

-- name: delete_invitation_of_user
DELETE FROM invitations WHERE id = :user_id

-- name: delete_mails_of_user
DELETE FROM mails WHERE reset_email = :email

-- name: delete_keys_of_user
DELETE FROM api_keys WHERE user_id = :user_id

-- name: lock_tenant
SELECT id, slug, name, db_pool AS pool, created_at, disabled_at FROM tenants WHERE id = :tenant_id FOR NO KEY UPDATE

-- name: disable_tenant
UPDATE tenants SET disabled_at = clock_timestamp() WHERE id = :tenant_id RETURNING disabled_at

-- name: enable_tenant
UPDATE tenants SET disabled_at = NULL WHERE id = :tenant_id
