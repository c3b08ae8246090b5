-- database: central

-- name: announce
-- In the transaction itself, because the notification must not be lost. The notifier sends after the commit, and the
-- command line has no notifier.
SELECT pg_notify(:channel, :payload)

-- name: end_sessions
DELETE FROM browser_sessions WHERE user_id = :user_id AND id_hash IS DISTINCT FROM :kept

-- name: end_sessions_of_tenant
DELETE FROM browser_sessions WHERE user_id IN (SELECT id FROM users WHERE tenant_id = :tenant_id)

-- name: end_links
DELETE FROM account_links WHERE user_id = :user_id

-- name: revoke_keys
UPDATE api_keys SET revoked_at = clock_timestamp() WHERE user_id = :user_id AND revoked_at IS NULL
