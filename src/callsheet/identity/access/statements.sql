-- database: central
-- owns: api_keys, audit_logs, browser_sessions, login_attempts, tenant_quotas, tenants, users

-- name: find_by_keys
-- LATERAL with LIMIT 1 makes the planner find each row by its index, whatever the statistics of the tables say. A
-- service key has no user.
SELECT wanted.place, coalesce(u.id, t.id) AS user_id, coalesce(u.email, '') AS email, coalesce(u.name, k.name) AS name,
    coalesce(u.role, 'user') AS role, t.id AS tenant_id, t.slug AS tenant, t.db_pool AS pool, k.id AS key_id, k.scopes,
    k.user_id IS NULL AS is_service_key
FROM unnest(:key_hashes::bytea[]) WITH ORDINALITY AS wanted (key_hash, place)
CROSS JOIN LATERAL (
    SELECT id, tenant_id, user_id, name, scopes FROM api_keys
    WHERE key_hash = wanted.key_hash AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > clock_timestamp())
    LIMIT 1
) k
CROSS JOIN LATERAL (
    SELECT id, slug, db_pool FROM tenants WHERE id = k.tenant_id AND disabled_at IS NULL LIMIT 1
) t
LEFT JOIN LATERAL (
    SELECT id, email, name, role FROM users WHERE id = k.user_id AND disabled_at IS NULL LIMIT 1
) u ON true
WHERE k.user_id IS NULL OR u.id IS NOT NULL

-- name: find_by_session
SELECT u.id AS user_id, u.email, u.name, u.role, t.id AS tenant_id, t.slug AS tenant, t.db_pool AS pool
FROM browser_sessions s
JOIN users u ON u.id = s.user_id
JOIN tenants t ON t.id = u.tenant_id
WHERE s.id_hash = :id_hash AND s.expires_at > clock_timestamp() AND u.disabled_at IS NULL AND t.disabled_at IS NULL

-- name: find_login
SELECT u.id AS user_id, u.email, u.name, u.role, u.password_hash, t.id AS tenant_id, t.slug AS tenant, t.db_pool AS pool
FROM users u
JOIN tenants t ON t.id = u.tenant_id
WHERE u.email = :email AND u.disabled_at IS NULL AND t.disabled_at IS NULL

-- name: count_attempts
-- Sorted, so that two logins that share buckets lock them in the same order.
INSERT INTO login_attempts AS known (bucket, window_start, attempts, ends_at)
SELECT bucket, to_timestamp(floor(extract(epoch FROM clock_timestamp()) / :window_seconds) * :window_seconds), 1,
    clock_timestamp() + make_interval(secs => :window_seconds)
FROM unnest(:buckets::bytea[]) AS bucket ORDER BY bucket
ON CONFLICT (bucket, window_start) DO UPDATE SET attempts = known.attempts + 1
RETURNING bucket, attempts,
    ceil(extract(epoch FROM window_start) + :window_seconds - extract(epoch FROM clock_timestamp()))::integer
        AS seconds_left

-- name: forgive_attempts
UPDATE login_attempts SET attempts = attempts - 1
WHERE bucket = ANY (:buckets::bytea[]) AND attempts > 0
  AND window_start > clock_timestamp() - make_interval(secs => :window_seconds)

-- name: replace_password
UPDATE users SET password_hash = :password_hash WHERE id = :user_id

-- name: create_session
-- Updates the row of the user, which locks it, only if the row still has the hash that was checked. A login during a
-- change of the password waits: it then creates no session, or the change ends its session. `fresh` is the same hash,
-- or a hash with the current parameters.
WITH signed_in_user AS (
    UPDATE users SET password_hash = :fresh
    WHERE id = :user_id AND password_hash = :checked AND disabled_at IS NULL
    RETURNING id
)
INSERT INTO browser_sessions (id_hash, user_id, expires_at, address, device)
SELECT :id_hash, id, clock_timestamp() + make_interval(hours => :hours), :address, :device FROM signed_in_user

-- name: end_oldest_sessions
DELETE FROM browser_sessions
WHERE id_hash IN (
    SELECT id_hash FROM browser_sessions WHERE user_id = :user_id ORDER BY created_at DESC OFFSET :max_rows
)

-- name: delete_session_by_hash
DELETE FROM browser_sessions WHERE id_hash = :id_hash RETURNING user_id

-- name: list_sessions
-- `current` is NULL for a caller without a session.
SELECT id, created_at, expires_at, greatest(created_at, last_seen_at) AS last_seen_at, address, device,
    id_hash IS NOT DISTINCT FROM :current AS is_current
FROM browser_sessions
WHERE user_id = :user_id AND expires_at > clock_timestamp()
ORDER BY created_at DESC, id

-- name: delete_session_by_id
DELETE FROM browser_sessions WHERE id = :id AND user_id = :user_id RETURNING id_hash

-- name: touch_sessions
UPDATE browser_sessions s SET last_seen_at = greatest(s.last_seen_at, seen.at)
FROM unnest(:id_hashes::bytea[], :times::timestamptz[]) AS seen (id_hash, at)
WHERE s.id_hash = seen.id_hash

-- name: sweep_sessions
DELETE FROM browser_sessions WHERE expires_at < :now

-- name: sweep_attempts
DELETE FROM login_attempts WHERE ends_at < :now

-- name: lock_key_owner
-- Run before a key is created. A change of the password ends all keys: it is committed before, or sees the new key.
SELECT id, tenant_id, role FROM users WHERE id = :user_id AND deleted_at IS NULL FOR NO KEY UPDATE

-- name: session_lives
SELECT EXISTS (SELECT FROM browser_sessions WHERE id_hash = :id_hash AND expires_at > clock_timestamp())

-- name: count_new_keys
-- By the index of a user's keys, newest first.
SELECT count(*) FROM (
    SELECT FROM api_keys
    WHERE user_id = :user_id AND created_at > clock_timestamp() - make_interval(secs => :seconds)
    ORDER BY created_at DESC LIMIT :max_rows
) k

-- name: create_key
INSERT INTO api_keys (id, tenant_id, user_id, name, prefix, key_hash, scopes, expires_at)
VALUES (:id, :tenant_id, :user_id, :name, :prefix, :key_hash, :scopes::text[], :expires_at)
RETURNING id, name, prefix, scopes, created_at, expires_at, last_used_at, revoked_at

-- name: list_keys
SELECT id, name, prefix, scopes, created_at, expires_at, last_used_at, revoked_at FROM api_keys
WHERE user_id = :user_id AND (:before::uuid IS NULL OR id < :before)
ORDER BY id DESC LIMIT :limit

-- name: get_key
SELECT id, name, prefix, scopes, created_at, expires_at, last_used_at, revoked_at FROM api_keys
WHERE id = :id AND user_id = :user_id

-- name: revoke_key
UPDATE api_keys SET revoked_at = clock_timestamp()
WHERE id = :id AND user_id = :user_id AND revoked_at IS NULL
RETURNING tenant_id

-- name: find_key_for_operator
SELECT k.id, k.tenant_id, k.user_id FROM api_keys k
WHERE k.id::text = :id_or_prefix OR k.prefix = :id_or_prefix

-- name: touch_keys
UPDATE api_keys k SET last_used_at = greatest(k.last_used_at, used.at)
FROM unnest(:ids::uuid[], :times::timestamptz[]) AS used (id, at)
WHERE k.id = used.id
