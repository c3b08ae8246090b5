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
        'checked_at', s.checked_at, 'driver_error', s.driver_error, 'driver_failing_since', s.driver_failing_since,
        'decisions', coalesce((
            SELECT jsonb_agg(to_jsonb(d) ORDER BY d.id DESC) FROM (
                SELECT id, fleet_id, at, cause, reason, wanted, on_demand, serving, coming, queued_jobs, queued_seconds,
                    drained, undrained, ended
                FROM scaling_decisions
                WHERE fleet_id = f.id ORDER BY fleet_id DESC, id DESC LIMIT 3
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

-- name: find_fleet
SELECT id FROM gpu_fleets WHERE id = :id

-- name: workflows_of_fleet
-- What the fleet's live workers can run, and what waits in the fleet's stage. As in queue_depth, ready rows are counted
-- lane by lane up to :max_rows. Workers of one image share an environment, so there are few groups.
WITH live_worker AS MATERIALIZED (
    SELECT w.worker_id, w.environment, w.is_narrowed,
        EXISTS (SELECT FROM worker_drains r WHERE r.worker_id = w.worker_id) AS is_draining
    FROM comfyui_workers w
    WHERE w.fleet_id = :fleet_id AND w.is_approved AND w.revoked_at IS NULL
      AND w.last_seen_at > clock_timestamp() - make_interval(secs => :alive_seconds)
), held_jobs AS MATERIALIZED (
    SELECT d.workflow_id, count(*) AS running FROM comfyui_workers w JOIN ai_job_dispatches d
        ON d.worker_id = w.worker_id AND d.status = 'leased'
    WHERE w.fleet_id = :fleet_id
    GROUP BY d.workflow_id
)
SELECT k.slug AS workflow, k.is_active, crew.live, crew.able, crew.groups, ready.queued, waiting.delayed,
    waiting.oldest_wait_seconds, coalesce(held_jobs.running, 0) AS running, t.average_seconds
FROM gpu_fleets f JOIN workflow_fleets wf ON wf.fleet_id = f.id JOIN workflows k ON k.id = wf.workflow_id
CROSS JOIN LATERAL (
    SELECT coalesce(sum(g.workers), 0)::bigint AS live,
        coalesce(sum(g.workers) FILTER (WHERE g.lacks = '[]'), 0)::bigint AS able,
        coalesce(jsonb_agg(g ORDER BY g.place) FILTER (WHERE g.place <= :max_groups), '[]') AS groups
    FROM (
        SELECT count(*) AS workers, (array_agg(w.worker_id ORDER BY w.worker_id))[1:5] AS worker_ids,
            count(*) FILTER (WHERE w.is_draining) AS draining, w.environment IS NOT NULL AS has_reported,
            coalesce(l.lacks, '[]') AS lacks,
            row_number() OVER (ORDER BY l.lacks IS NOT NULL, count(*) DESC, l.lacks) AS place
        FROM live_worker w LEFT JOIN environment_lacks l ON l.digest = w.environment AND l.workflow_id = k.id
        WHERE NOT w.is_narrowed OR EXISTS (
            SELECT FROM worker_workflows ww WHERE ww.worker_id = w.worker_id AND ww.workflow_id = k.id)
        GROUP BY w.environment IS NOT NULL, l.lacks
    ) g
) crew CROSS JOIN LATERAL (
    SELECT count(*) AS queued FROM (
        SELECT FROM dispatch_lanes l CROSS JOIN LATERAL (
            SELECT FROM ai_job_dispatches d
            WHERE d.lane_id = l.lane_id AND d.dispatch_id >= l.low_water
              AND d.status = 'queued' AND d.not_before IS NULL
            ORDER BY d.dispatch_id LIMIT :max_rows::bigint
        ) first
        WHERE l.workflow_id = k.id AND l.stage = f.stage LIMIT :max_rows::bigint
    ) counted
) ready CROSS JOIN LATERAL (
    SELECT extract(epoch FROM clock_timestamp() - min(head.created_at))::float8 AS oldest_wait_seconds,
        coalesce(sum((SELECT count(*) FROM ai_job_dispatches d
            WHERE d.lane_id = l.lane_id AND d.status = 'queued' AND d.not_before IS NOT NULL)), 0)::bigint AS delayed
    FROM dispatch_lanes l LEFT JOIN LATERAL (
        SELECT d.created_at FROM ai_job_dispatches d
        WHERE d.lane_id = l.lane_id AND d.dispatch_id >= l.low_water AND d.status = 'queued' AND d.not_before IS NULL
        ORDER BY d.dispatch_id LIMIT 1
    ) head ON true
    WHERE l.workflow_id = k.id AND l.stage = f.stage
) waiting
LEFT JOIN held_jobs ON held_jobs.workflow_id = k.id LEFT JOIN workflow_timings t ON t.workflow_id = k.id
WHERE f.id = :fleet_id
ORDER BY starts_with(k.slug, 'actor:'), k.slug

-- name: lock_fleet
SELECT id FROM gpu_fleets WHERE id = :id FOR NO KEY UPDATE

-- name: update_fleet
UPDATE gpu_fleets SET name = coalesce(:name, name), is_active = coalesce(:is_active, is_active),
    desired_workers = CASE WHEN :sets_desired_workers THEN :desired_workers ELSE desired_workers END
WHERE id = :id

-- name: unassign_other_fleet_workflows
DELETE FROM workflow_fleets WHERE fleet_id = :fleet_id AND workflow_id <> ALL (:workflow_ids::bigint[])

-- name: unassign_fleet_workflows
DELETE FROM workflow_fleets WHERE fleet_id = :fleet_id AND workflow_id = ANY (:workflow_ids::bigint[])

-- name: assign_fleet_workflows
INSERT INTO workflow_fleets (fleet_id, workflow_id)
SELECT :fleet_id, id FROM workflows
WHERE id = ANY (:workflow_ids::bigint[]) FOR KEY SHARE
ON CONFLICT DO NOTHING

-- name: notify_fleet_reassigned
-- Notifies waiting polls at the commit; otherwise the change would take effect with the next poll.
SELECT pg_notify('assignments', worker_id) FROM comfyui_workers WHERE fleet_id = :fleet_id

-- name: detach_revoked_workers
-- Revoked workers are kept only so that their ids stay blocked.
UPDATE comfyui_workers SET fleet_id = NULL, registration_source = 'workflows', is_narrowed = false
WHERE fleet_id = :fleet_id AND revoked_at IS NOT NULL

-- name: is_scaled
SELECT EXISTS (SELECT FROM fleet_scaling WHERE fleet_id = :fleet_id)

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
