-- database: central

-- name: announce
-- Not by the notifier, which sends after a commit: the command line has none, and this must not be lost.
SELECT pg_notify(:channel, :payload)

-- name: end_sessions
DELETE FROM browser_sessions WHERE user_id = :user_id AND id_hash IS DISTINCT FROM :kept

-- name: end_sessions_of_tenant
DELETE FROM browser_sessions WHERE user_id IN (SELECT id FROM users WHERE tenant_id = :tenant_id)

-- name: end_links
DELETE FROM account_links WHERE user_id = :user_id

-- name: revoke_keys
UPDATE api_keys SET revoked_at = clock_timestamp() WHERE user_id = :user_id AND revoked_at IS NULL
