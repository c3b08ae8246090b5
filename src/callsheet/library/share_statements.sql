-- database: central
-- owns: share_links

-- name: find_share
SELECT s.id, s.tenant_id, s.user_id, s.job_id, s.shows_prompt, s.shows_input, s.expires_at, t.db_pool AS pool
FROM share_links s
JOIN users u ON u.id = s.user_id
JOIN tenants t ON t.id = s.tenant_id
WHERE s.token_hash = :token_hash AND s.revoked_at IS NULL AND s.expires_at > clock_timestamp()
  AND u.disabled_at IS NULL AND u.deleted_at IS NULL AND t.disabled_at IS NULL

-- name: lock_owner
-- Run before count_shares, so that concurrent requests of a user are counted one after the other.
SELECT FROM users WHERE id = :user_id FOR NO KEY UPDATE

-- name: count_shares
-- The valid links, and all links of the last hour, also revoked ones.
SELECT count(*) FILTER (WHERE revoked_at IS NULL AND expires_at > clock_timestamp()) AS open,
    count(*) FILTER (WHERE created_at > clock_timestamp() - interval '1 hour') AS new
FROM share_links
WHERE user_id = :user_id

-- name: create_share
INSERT INTO share_links (id, token_hash, tenant_id, user_id, job_id, shows_prompt, shows_input, expires_at)
VALUES (:id, :token_hash, :tenant_id, :user_id, :job_id, :shows_prompt, :shows_input,
    clock_timestamp() + make_interval(days => :days))
RETURNING id, job_id, shows_prompt, shows_input, created_at, expires_at, opened, last_opened_at

-- name: list_shares
SELECT id, job_id, shows_prompt, shows_input, created_at, expires_at, opened, last_opened_at FROM share_links
WHERE user_id = :user_id AND id < coalesce(:before, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
  AND (:job_id::uuid IS NULL OR job_id = :job_id) AND revoked_at IS NULL AND expires_at > clock_timestamp()
ORDER BY id DESC LIMIT :limit

-- name: revoke_share
UPDATE share_links SET revoked_at = clock_timestamp()
WHERE id = :id AND user_id = :user_id AND job_id = :job_id AND revoked_at IS NULL
RETURNING id

-- name: share_exists
SELECT EXISTS (SELECT FROM share_links WHERE id = :id AND user_id = :user_id AND job_id = :job_id)

-- name: add_openings
UPDATE share_links s SET opened = s.opened + seen.times, last_opened_at = greatest(s.last_opened_at, seen.at)
FROM unnest(:ids::uuid[], :times::bigint[], :at::timestamptz[]) AS seen (id, times, at)
WHERE s.id = seen.id

-- name: sweep_shares
-- Deletes links some time after their end, because count_shares counts the links of the last hour.
DELETE FROM share_links
WHERE id = ANY (ARRAY (
    SELECT id FROM share_links
    WHERE least(expires_at, revoked_at) < :before ORDER BY least(expires_at, revoked_at)
    LIMIT :limit
))
