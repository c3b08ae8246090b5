-- database: central
-- owns: fleet_tokens, gpu_fleets, workflow_fleets
-- Fleets, their workflows and their registration tokens.

-- name: create_fleet
INSERT INTO gpu_fleets (slug, stage, name, desired_workers) VALUES (:slug, :stage, :name, :desired_workers)
ON CONFLICT (slug, stage) DO NOTHING RETURNING id

-- name: list_fleets
SELECT f.id, f.slug, f.stage, f.name, f.is_active, f.desired_workers, f.created_at,
    ARRAY (SELECT k.slug FROM workflow_fleets wf JOIN workflows k ON k.id = wf.workflow_id
           WHERE wf.fleet_id = f.id ORDER BY k.slug) AS workflows,
    crew.workers, crew.live_workers, scaled.scaling
FROM gpu_fleets f LEFT JOIN LATERAL (
    SELECT jsonb_build_object('driver', s.driver, 'minimum', s.minimum, 'maximum', s.maximum, 'wanted', s.wanted,
        'actual', s.serving, 'coming', s.coming, 'draining', s.draining, 'existing', s.existing,
        'queued_jobs', s.queued_jobs, 'queued_seconds', s.queued_seconds, 'cause', s.cause, 'reason', s.reason,
        'looked_at', s.looked_at, 'driver_error', s.driver_error, 'driver_failing_since', s.driver_failing_since,
        'decisions', coalesce((
            SELECT jsonb_agg(to_jsonb(d) ORDER BY d.id DESC) FROM (
                SELECT * FROM scaling_decisions d WHERE d.fleet_id = f.id ORDER BY d.fleet_id DESC, d.id DESC LIMIT 3
            ) d), '[]')) AS scaling
    FROM fleet_scaling s
    WHERE s.fleet_id = f.id
) scaled ON true CROSS JOIN LATERAL (
    SELECT count(*) AS workers, count(*) FILTER (WHERE w.is_approved AND w.revoked_at IS NULL
        AND NOT EXISTS (SELECT FROM worker_drains r WHERE r.worker_id = w.worker_id)
        AND w.last_seen_at > clock_timestamp() - make_interval(secs => :alive_seconds)) AS live_workers
    FROM comfyui_workers w
    WHERE w.fleet_id = f.id
) crew
WHERE f.id < coalesce(:before, 9223372036854775807) AND (:id::bigint IS NULL OR f.id = :id)
  AND (:slug::text IS NULL OR f.slug = :slug) AND (:stage::text IS NULL OR f.stage = :stage)
ORDER BY f.id DESC LIMIT :limit

-- name: lock_fleet
SELECT id FROM gpu_fleets WHERE id = :id FOR NO KEY UPDATE

-- name: update_fleet
UPDATE gpu_fleets SET name = coalesce(:name, name), is_active = coalesce(:is_active, is_active),
    desired_workers = CASE WHEN :sets_desired_workers THEN :desired_workers ELSE desired_workers END
WHERE id = :id

-- name: unassign_fleet_workflows
DELETE FROM workflow_fleets WHERE fleet_id = :fleet_id AND workflow_id <> ALL (:workflow_ids::bigint[])

-- name: unassign_fleet_workflow
DELETE FROM workflow_fleets
WHERE fleet_id = :fleet_id AND workflow_id = (SELECT id FROM workflows WHERE slug = :slug)

-- name: assign_fleet_workflows
INSERT INTO workflow_fleets (fleet_id, workflow_id)
SELECT :fleet_id, workflow_id FROM unnest(:workflow_ids::bigint[]) AS workflow_id
ON CONFLICT DO NOTHING

-- name: notify_fleet_reassigned
-- Notifies waiting polls at the commit; otherwise the change would take effect with the next poll.
SELECT pg_notify('assignments', worker_id) FROM comfyui_workers WHERE fleet_id = :fleet_id

-- name: detach_revoked_workers
-- Revoked workers are kept only so that their ids stay blocked.
UPDATE comfyui_workers SET fleet_id = NULL, registration_source = 'workflows', is_narrowed = false
WHERE fleet_id = :fleet_id AND revoked_at IS NOT NULL

-- name: delete_fleet
DELETE FROM gpu_fleets WHERE id = :id RETURNING slug, stage

-- name: list_actor_workflows
SELECT slug FROM workflows WHERE starts_with(slug, 'actor:') ORDER BY slug

-- name: create_fleet_token
INSERT INTO fleet_tokens (fleet_id, name, prefix, token_hash, created_by, replaces)
VALUES (:fleet_id, :name, :prefix, :token_hash, :created_by, :replaces)
ON CONFLICT (replaces) DO NOTHING
RETURNING id

-- name: lock_fleet_token
SELECT t.id, t.fleet_id, t.name, t.revoked_at, t.expires_at <= clock_timestamp() AS has_expired
FROM fleet_tokens t
WHERE t.id = :id AND (:fleet_id::bigint IS NULL OR t.fleet_id = :fleet_id) FOR NO KEY UPDATE

-- name: expire_fleet_token
UPDATE fleet_tokens SET expires_at = clock_timestamp() + make_interval(secs => :seconds) WHERE id = :id

-- name: revoke_fleet_token
-- A second revocation does not change revoked_at.
UPDATE fleet_tokens SET revoked_at = coalesce(revoked_at, clock_timestamp()) WHERE id = :id

-- name: list_fleet_tokens
SELECT t.id, t.fleet_id, f.slug AS fleet_slug, f.stage, t.name, t.prefix, t.replaces, t.created_by, t.created_at,
    t.expires_at, t.revoked_at, t.last_used_at, t.last_used_by,
    t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > clock_timestamp()) AS is_accepted,
    (SELECT count(*) FROM comfyui_workers w WHERE w.fleet_token_id = t.id AND w.revoked_at IS NULL) AS workers
FROM fleet_tokens t JOIN gpu_fleets f ON f.id = t.fleet_id
WHERE t.id < coalesce(:before, 9223372036854775807) AND (:id::bigint IS NULL OR t.id = :id)
  AND (:fleet_id::bigint IS NULL OR t.fleet_id = :fleet_id)
ORDER BY t.id DESC LIMIT :limit

-- name: find_fleet_token
-- Whether a token is accepted now; checked before a body is read. A registration checks again, in its transaction.
SELECT token_hash FROM fleet_tokens
WHERE token_hash = :token_hash AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > clock_timestamp())

-- name: find_fleet_token_for_operator
SELECT id FROM fleet_tokens WHERE id::text = :id_or_prefix OR prefix = :id_or_prefix
