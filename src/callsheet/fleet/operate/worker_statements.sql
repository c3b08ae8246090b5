-- database: central
-- Admins' views of workers, and their actions on them.

-- name: list_workers
-- Registered workers, and drained workers that are not registered, with the data of their last session. There are some
-- thousand at most; for each of them the queue is read by its index of held rows.
SELECT w.worker_id, w.is_registered, w.display_name, w.registration_source, w.fleet_id, w.fleet_slug, w.stage,
    w.providers, w.max_concurrency, w.capabilities, w.capacity_type, w.instance_type, w.is_approved, w.revoked_at,
    w.session_id, w.registered_at, w.last_seen_at, w.rotation_pending, w.fleet_token_id, w.asg_unverified, w.is_live,
    r.worker_id IS NOT NULL AS is_draining, r.since AS drained_since, r.drained_by,
    (SELECT u.email FROM users u WHERE u.id = user_of_actor(r.drained_by)) AS drained_by_email,
    r.reason AS drain_reason,
    ARRAY (SELECT k.slug FROM (
            SELECT wf.workflow_id FROM workflow_fleets wf JOIN gpu_fleets f ON f.id = wf.fleet_id AND f.is_active
            WHERE wf.fleet_id = w.fleet_id AND (NOT w.is_narrowed OR EXISTS (
                SELECT FROM worker_workflows ww WHERE ww.worker_id = w.worker_id AND ww.workflow_id = wf.workflow_id))
            UNION ALL
            SELECT ww.workflow_id FROM worker_workflows ww WHERE ww.worker_id = w.worker_id AND w.fleet_id IS NULL
        ) given JOIN workflows k ON k.id = given.workflow_id AND k.is_active
        WHERE NOT EXISTS (
            SELECT FROM environment_lacks l WHERE l.digest = w.environment AND l.workflow_id = given.workflow_id)
        ORDER BY k.slug) AS workflows,
    (SELECT count(*) FROM ai_job_dispatches d WHERE d.worker_id = w.worker_id AND d.status = 'leased') AS current_load,
    coalesce((SELECT jsonb_agg(lease ORDER BY lease.dispatch_id) FROM (
        SELECT d.dispatch_id, d.tenant_id, d.tenant_job_id AS job_id, k.slug AS workflow, d.attempts,
            d.last_leased_at AS leased_at, d.run_started_at, d.heartbeat_at, d.lease_expires_at
        FROM ai_job_dispatches d JOIN workflows k ON k.id = d.workflow_id
        WHERE d.worker_id = w.worker_id AND d.status = 'leased' ORDER BY d.dispatch_id LIMIT :max_leases
    ) lease), '[]') AS leases
FROM (
    SELECT c.worker_id, true AS is_registered, c.display_name, c.registration_source, c.fleet_id, f.slug AS fleet_slug,
        c.stage, c.providers, c.max_concurrency, c.capabilities || coalesce(m.capabilities, '{}') AS capabilities,
        c.capacity_type, c.instance_type, c.is_approved,
        c.revoked_at, c.session_id, c.registered_at, c.last_seen_at, c.rotation_id IS NOT NULL AS rotation_pending,
        c.is_narrowed, c.fleet_token_id, c.asg_unverified, c.environment,
        c.revoked_at IS NULL AND c.last_seen_at > clock_timestamp() - make_interval(secs => :alive_seconds) AS is_live
    FROM comfyui_workers c LEFT JOIN gpu_fleets f ON f.id = c.fleet_id
    LEFT JOIN worker_machines m ON m.worker_id = c.worker_id AND m.session_id = c.session_id
    UNION ALL
    SELECT a.worker_id, false, '', CASE WHEN s.fleet_slug IS NULL THEN 'workflows' ELSE 'fleet' END, NULL, s.fleet_slug,
        coalesce(s.stage, :default_stage), '{}', 0, '{}', s.capacity_type, s.instance_type, true, NULL, s.id,
        coalesce(s.started_at, a.since), coalesce(s.ended_at, a.since), false, false, NULL, false, NULL, false
    FROM worker_drains a LEFT JOIN LATERAL (
        SELECT s.id, s.fleet_slug, s.stage, s.capacity_type, s.instance_type, s.started_at, s.ended_at
        FROM worker_sessions s
        WHERE s.worker_id = a.worker_id ORDER BY s.id DESC LIMIT 1
    ) s ON true
    WHERE NOT EXISTS (SELECT FROM comfyui_workers c WHERE c.worker_id = a.worker_id)
) w LEFT JOIN worker_drains r ON r.worker_id = w.worker_id
WHERE w.worker_id > coalesce(:after, '') AND (:worker_id::text IS NULL OR w.worker_id = :worker_id)
  AND (:fleet::text IS NULL OR w.fleet_slug = :fleet) AND (:stage::text IS NULL OR w.stage = :stage)
  AND (:approved::boolean IS NULL OR w.is_approved = :approved) AND (:live::boolean IS NULL OR w.is_live = :live)
  AND (:search::text IS NULL
    OR strpos(lower(concat_ws(' ', w.worker_id, w.display_name, w.fleet_slug)), lower(:search)) > 0)
  AND (:busy::boolean IS NULL OR w.is_live AND w.is_approved AND r.worker_id IS NULL AND :busy = EXISTS (
    SELECT FROM ai_job_dispatches d WHERE d.worker_id = w.worker_id AND d.status = 'leased'))
ORDER BY w.worker_id LIMIT :limit

-- name: engine_use_of_worker
-- Of its current session: a new agent starts to measure anew.
SELECT u.engines, u.reported_at FROM worker_engine_use u
JOIN comfyui_workers w ON w.worker_id = u.worker_id AND w.session_id = u.session_id
WHERE u.worker_id = :worker_id

-- name: disk_of_worker
-- Of its current session. No row if the worker does not report it.
SELECT m.disk_free_bytes AS free_bytes, m.disk_size_bytes AS size_bytes, m.reported_at FROM worker_machines m
JOIN comfyui_workers w ON w.worker_id = m.worker_id AND w.session_id = m.session_id
WHERE m.worker_id = :worker_id AND m.disk_free_bytes IS NOT NULL AND m.disk_size_bytes IS NOT NULL

-- name: find_workflow
SELECT id FROM workflows WHERE slug = :slug

-- name: workers_of_workflow
-- The live workers that the workflow is assigned to, in groups that lack the same. Workers of one image share an
-- environment, so there are few groups.
WITH live_worker AS MATERIALIZED (
    SELECT w.worker_id, w.environment,
        EXISTS (SELECT FROM worker_drains r WHERE r.worker_id = w.worker_id) AS is_draining
    FROM (
        SELECT m.worker_id, m.environment, m.is_approved, m.revoked_at, m.last_seen_at
        FROM workflow_fleets wf JOIN gpu_fleets f ON f.id = wf.fleet_id AND f.is_active
        JOIN comfyui_workers m ON m.fleet_id = f.id
        WHERE wf.workflow_id = :workflow_id AND (NOT m.is_narrowed OR EXISTS (
            SELECT FROM worker_workflows ww WHERE ww.worker_id = m.worker_id AND ww.workflow_id = :workflow_id))
        UNION ALL
        SELECT m.worker_id, m.environment, m.is_approved, m.revoked_at, m.last_seen_at
        FROM worker_workflows ww JOIN comfyui_workers m ON m.worker_id = ww.worker_id AND m.fleet_id IS NULL
        WHERE ww.workflow_id = :workflow_id
    ) w
    WHERE w.is_approved AND w.revoked_at IS NULL
      AND w.last_seen_at > clock_timestamp() - make_interval(secs => :alive_seconds)
)
SELECT count(*) AS workers, (array_agg(w.worker_id ORDER BY w.worker_id))[1:5] AS worker_ids,
    count(*) FILTER (WHERE w.is_draining) AS draining, w.environment IS NOT NULL AS has_reported,
    coalesce(l.lacks, '[]') AS lacks, (sum(count(*)) OVER ())::bigint AS all_workers,
    coalesce(sum(count(*)) FILTER (WHERE l.lacks IS NULL) OVER (), 0)::bigint AS able_workers
FROM live_worker w LEFT JOIN environment_lacks l ON l.digest = w.environment AND l.workflow_id = :workflow_id
GROUP BY w.environment IS NOT NULL, l.lacks
ORDER BY l.lacks IS NOT NULL, count(*) DESC, l.lacks LIMIT :limit

-- name: approve_worker
-- A revoked worker gets a hash that no token has, so its id may register again. It counts as seen now, so the sweeper
-- does not remove it before. Its session has ended, so it does not count as alive.
UPDATE comfyui_workers SET is_approved = true, revoked_at = NULL,
    token_hash = coalesce(token_hash, :unusable_hash),
    last_seen_at = CASE WHEN revoked_at IS NULL THEN last_seen_at ELSE clock_timestamp() END
WHERE worker_id = :worker_id

-- name: remember_approval
INSERT INTO worker_approvals (worker_id, approved_by)
VALUES (:worker_id, :approved_by)
ON CONFLICT (worker_id) DO NOTHING

-- name: revoke_worker
UPDATE comfyui_workers SET is_approved = false, revoked_at = coalesce(revoked_at, clock_timestamp()),
    token_hash = NULL, rotation_id = NULL, next_token_hash = NULL, rotated_at = NULL
WHERE worker_id = :worker_id

-- name: forget_approval
DELETE FROM worker_approvals WHERE worker_id = :worker_id

-- name: rotate_token
UPDATE comfyui_workers
SET rotation_id = :rotation_id, next_token_hash = :next_token_hash, rotated_at = clock_timestamp()
WHERE worker_id = :worker_id
