-- database: central
-- owns: comfyui_workers, worker_approvals, worker_workflows
-- Registers and deregisters workers.

-- name: lock_registrations
-- Serializes registrations, because workers are counted before one is added.
SELECT pg_advisory_xact_lock(hashtextextended('callsheet registrations', 0))

-- name: find_fleet_to_join
-- Locks the fleet, so that it is not deleted while a worker joins it.
SELECT f.id, f.slug, f.stage, f.is_active, ARRAY (
        SELECT k.slug FROM workflow_fleets wf JOIN workflows k ON k.id = wf.workflow_id
        WHERE wf.fleet_id = f.id AND k.is_active ORDER BY k.slug) AS workflows
FROM gpu_fleets f
WHERE f.slug = :slug AND f.stage = :stage FOR KEY SHARE OF f

-- name: find_fleet_of_token
-- Locks like find_fleet_to_join. The token is locked after its fleet, in the order in which a fleet is deleted.
SELECT f.id, f.slug, f.stage, f.is_active, ARRAY (
        SELECT k.slug FROM workflow_fleets wf JOIN workflows k ON k.id = wf.workflow_id
        WHERE wf.fleet_id = f.id AND k.is_active ORDER BY k.slug) AS workflows
FROM gpu_fleets f
WHERE f.id = (SELECT t.fleet_id FROM fleet_tokens t WHERE t.token_hash = :token_hash) FOR KEY SHARE OF f

-- name: use_fleet_token
-- Waits for a concurrent revocation or rotation. After the wait the new row is checked, with the current time.
UPDATE fleet_tokens SET last_used_at = clock_timestamp(), last_used_by = :worker_id
WHERE token_hash = :token_hash AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > clock_timestamp())
RETURNING id, name

-- name: find_workflows
SELECT id, slug, is_active FROM workflows WHERE slug = ANY (:slugs::text[]) ORDER BY slug

-- name: lock_worker
SELECT w.worker_id, w.session_id, w.registration_source, w.is_approved, w.revoked_at, w.rotation_id, w.fleet_id,
    w.fleet_token_id, extract(epoch FROM clock_timestamp() - w.last_seen_at)::float8 AS seen_seconds_ago,
    EXISTS (SELECT FROM worker_sessions s WHERE s.id = w.session_id AND s.ended_at IS NULL) AS in_session
FROM comfyui_workers w
WHERE w.worker_id = :worker_id FOR NO KEY UPDATE OF w

-- name: count_other_workers
-- In-process workers do not count towards max_workers.
SELECT count(*) FROM comfyui_workers
WHERE revoked_at IS NULL AND worker_id <> :worker_id AND NOT starts_with(worker_id, :own_prefix)

-- name: is_secret_of_revoked_worker
SELECT EXISTS (
    SELECT FROM comfyui_workers
    WHERE revoked_at IS NOT NULL AND secret_fingerprint = ANY (:fingerprints::bytea[]))

-- name: is_approved_by_person
SELECT EXISTS (SELECT FROM worker_approvals WHERE worker_id = :worker_id)

-- name: save_worker
-- Each registration decides is_approved anew. (Approvals by a person and drains have their own tables.)
INSERT INTO comfyui_workers AS known (
    worker_id, display_name, registration_source, fleet_id, stage, providers, names_providers, session_id, token_hash,
    max_concurrency, registered_concurrency, capabilities, capacity_type, instance_type, is_approved, is_narrowed,
    fleet_token_id, secret_fingerprint, asg_unverified, environment)
VALUES (:worker_id, :display_name, :registration_source, :fleet_id, :stage, :providers::text[], :names_providers,
    :session_id, :token_hash, :max_concurrency, :max_concurrency, :capabilities::jsonb, :capacity_type, :instance_type,
    :is_approved, :is_narrowed, :fleet_token_id, :secret_fingerprint, :asg_unverified, :environment)
ON CONFLICT (worker_id) DO UPDATE SET
    display_name = excluded.display_name,
    registration_source = excluded.registration_source,
    fleet_id = excluded.fleet_id,
    stage = excluded.stage,
    providers = excluded.providers,
    names_providers = excluded.names_providers,
    session_id = excluded.session_id,
    token_hash = excluded.token_hash,
    rotation_id = NULL,
    next_token_hash = NULL,
    rotated_at = NULL,
    max_concurrency = excluded.max_concurrency,
    registered_concurrency = excluded.registered_concurrency,
    capabilities = excluded.capabilities,
    capacity_type = excluded.capacity_type,
    instance_type = excluded.instance_type,
    is_approved = excluded.is_approved,
    is_narrowed = excluded.is_narrowed,
    fleet_token_id = excluded.fleet_token_id,
    secret_fingerprint = excluded.secret_fingerprint,
    asg_unverified = excluded.asg_unverified,
    environment = excluded.environment,
    registered_at = clock_timestamp(),
    last_seen_at = clock_timestamp()

-- name: set_environment
-- Only for the session that reported the environment. Returns a row if the environment changed.
UPDATE comfyui_workers SET environment = :environment
WHERE worker_id = :worker_id AND session_id = :session_id AND environment IS DISTINCT FROM :environment
RETURNING worker_id

-- name: environment_of_worker
SELECT w.environment AS digest, e.inventory, e.node_forms
FROM comfyui_workers w LEFT JOIN worker_environments e ON e.digest = w.environment
WHERE w.worker_id = :worker_id AND w.session_id = :session_id

-- name: exchange_environment
-- Only if the worker did not report another environment meanwhile. Returns a row if the environment changed.
UPDATE comfyui_workers SET environment = :environment
WHERE worker_id = :worker_id AND session_id = :session_id AND environment IS NOT DISTINCT FROM :expected
  AND environment IS DISTINCT FROM :environment
RETURNING worker_id

-- name: cannot_run
-- The assigned active workflows for which a worker lacks something.
SELECT k.slug AS workflow, l.lacks
FROM comfyui_workers w JOIN environment_lacks l ON l.digest = w.environment JOIN workflows k ON k.id = l.workflow_id
WHERE w.worker_id = :worker_id AND k.is_active AND (
    EXISTS (SELECT FROM worker_workflows ww WHERE ww.worker_id = w.worker_id AND ww.workflow_id = k.id)
    OR NOT w.is_narrowed AND EXISTS (
        SELECT FROM workflow_fleets wf WHERE wf.fleet_id = w.fleet_id AND wf.workflow_id = k.id))
ORDER BY k.slug LIMIT :limit

-- name: unassign_workflows
DELETE FROM worker_workflows WHERE worker_id = :worker_id AND workflow_id <> ALL (:workflow_ids::bigint[])

-- name: assign_workflows
INSERT INTO worker_workflows (worker_id, workflow_id)
SELECT :worker_id, workflow_id FROM unnest(:workflow_ids::bigint[]) AS workflow_id
ON CONFLICT DO NOTHING

-- name: notify_worker_reassigned
SELECT pg_notify('assignments', :worker_id::text)

-- name: remove_session_of_worker
DELETE FROM comfyui_workers WHERE worker_id = :worker_id AND session_id = :session_id
