-- database: central
-- owns: worker_engine_use, worker_machines
-- Requests of workers: authentication, the last time each worker was seen, and spare work for prefetches.

-- name: authenticate
-- Finds each token by a unique index, as the current or the next token. For polls it also reads what a lease needs: the
-- active workflows and the worker's leases (rows of the queue, read here so that a poll needs one statement).
WITH lookups AS MATERIALIZED (
    SELECT * FROM unnest(:hashes::bytea[], :for_poll::boolean[]) WITH ORDINALITY AS l (hash, for_poll, place)
)
SELECT lookups.place, w.worker_id, w.session_id, w.stage, w.providers, w.names_providers, w.max_concurrency,
    w.is_approved, greatest(w.registered_concurrency, w.max_concurrency) AS registered_concurrency,
    EXISTS (SELECT FROM worker_drains r WHERE r.worker_id = w.worker_id) AS is_draining,
    w.rotation_id, w.next_token_hash, w.is_next, assigned.workflow_ids,
    held.ids AS held_ids, held.tokens AS held_tokens, held.polls AS held_polls, held.seconds AS held_seconds,
    held.heartbeated AS held_heartbeated, held.left_seconds AS held_left_seconds,
    held.silent_seconds AS held_silent_seconds
FROM lookups CROSS JOIN LATERAL (
    SELECT c.worker_id, c.session_id, c.stage, c.providers, c.names_providers, c.max_concurrency, c.is_approved,
        c.registered_concurrency, c.rotation_id, c.next_token_hash, c.fleet_id, c.is_narrowed, c.environment,
        false AS is_next
    FROM comfyui_workers c
    WHERE c.token_hash = lookups.hash
      AND (c.rotated_at IS NULL OR c.rotated_at > clock_timestamp() - make_interval(secs => :rotation_seconds))
    UNION ALL
    SELECT c.worker_id, c.session_id, c.stage, c.providers, c.names_providers, c.max_concurrency, c.is_approved,
        c.registered_concurrency, c.rotation_id, c.next_token_hash, c.fleet_id, c.is_narrowed, c.environment, true
    FROM comfyui_workers c
    WHERE c.next_token_hash = lookups.hash
) w
LEFT JOIN LATERAL (
    SELECT array_agg(given.workflow_id ORDER BY given.workflow_id) AS workflow_ids FROM (
        SELECT wf.workflow_id FROM gpu_fleets f JOIN workflow_fleets wf ON wf.fleet_id = f.id
        WHERE f.id = w.fleet_id AND f.is_active AND (NOT w.is_narrowed OR EXISTS (
            SELECT FROM worker_workflows ww WHERE ww.worker_id = w.worker_id AND ww.workflow_id = wf.workflow_id))
        UNION ALL
        SELECT ww.workflow_id FROM worker_workflows ww WHERE ww.worker_id = w.worker_id AND w.fleet_id IS NULL
    ) given JOIN workflows k ON k.id = given.workflow_id AND k.is_active
    -- Read once, by key; empty for a worker that did not report its environment.
    WHERE lookups.for_poll AND given.workflow_id <> ALL (ARRAY (
        SELECT l.workflow_id FROM environment_lacks l WHERE l.digest = w.environment))
) assigned ON true
LEFT JOIN LATERAL (
    SELECT array_agg(d.dispatch_id ORDER BY d.dispatch_id) AS ids,
        array_agg(d.lease_token ORDER BY d.dispatch_id) AS tokens,
        array_agg(d.poll_id ORDER BY d.dispatch_id) AS polls,
        -- One timestamp for all rows, so that their order does not depend on when each row was read.
        array_agg(extract(epoch FROM statement_timestamp() - d.last_leased_at)::float8 ORDER BY d.dispatch_id)
            AS seconds,
        array_agg(d.heartbeat_at IS NOT NULL ORDER BY d.dispatch_id) AS heartbeated,
        array_agg(extract(epoch FROM d.lease_expires_at - statement_timestamp())::float8 ORDER BY d.dispatch_id)
            AS left_seconds,
        array_agg(extract(epoch FROM statement_timestamp() - coalesce(d.heartbeat_at, d.last_leased_at))::float8
            ORDER BY d.dispatch_id) AS silent_seconds
    FROM ai_job_dispatches d
    WHERE lookups.for_poll AND d.worker_id = w.worker_id AND d.status = 'leased'
) held ON true

-- name: leases_of_worker
SELECT dispatch_id, lease_token, poll_id,
    extract(epoch FROM statement_timestamp() - last_leased_at)::float8 AS leased_seconds_ago,
    heartbeat_at IS NOT NULL AS heartbeated,
    extract(epoch FROM lease_expires_at - statement_timestamp())::float8 AS left_seconds,
    extract(epoch FROM statement_timestamp() - coalesce(heartbeat_at, last_leased_at))::float8 AS silent_seconds
FROM ai_job_dispatches
WHERE status = 'leased' AND worker_id = :worker_id
ORDER BY dispatch_id

-- name: adopt_rotated_tokens
-- At its first use the next token becomes the current one, and the old token is invalid.
WITH workers_with_next_token AS MATERIALIZED (
    SELECT worker_id FROM comfyui_workers
    WHERE next_token_hash = ANY (:hashes::bytea[])
    ORDER BY worker_id FOR NO KEY UPDATE
), adopted_tokens AS (
    UPDATE comfyui_workers w
    SET token_hash = w.next_token_hash, next_token_hash = NULL, rotation_id = NULL, rotated_at = NULL
    FROM workers_with_next_token n
    WHERE w.worker_id = n.worker_id AND w.next_token_hash = ANY (:hashes::bytea[])
    RETURNING w.worker_id, w.session_id
)
INSERT INTO worker_audit_logs (worker_id, session_id, event, actor)
SELECT worker_id, session_id, 'token_adopted', 'worker:' || worker_id FROM adopted_tokens

-- name: find_removed_tokens
-- Tokens of removed workers that have not registered again. A worker that has registered again has a new token.
SELECT t.token_hash FROM removed_worker_tokens t JOIN worker_sessions s ON s.id = t.session_id
WHERE t.token_hash = ANY (:hashes::bytea[])
  AND NOT EXISTS (SELECT FROM worker_sessions later WHERE later.worker_id = s.worker_id AND later.id > s.id)

-- name: touch_workers
-- Locks in key order, like every statement that locks several workers.
WITH seen_workers AS MATERIALIZED (
    SELECT * FROM unnest(:worker_ids::text[], :seconds_ago::double precision[]) AS s (worker_id, seconds_ago)
), locked_workers AS MATERIALIZED (
    SELECT worker_id FROM comfyui_workers
    WHERE worker_id = ANY (:worker_ids::text[])
    ORDER BY worker_id FOR NO KEY UPDATE
)
UPDATE comfyui_workers w
SET last_seen_at = greatest(w.last_seen_at, clock_timestamp() - make_interval(secs => seen_workers.seconds_ago))
FROM locked_workers JOIN seen_workers USING (worker_id)
WHERE w.worker_id = locked_workers.worker_id AND w.worker_id = ANY (:worker_ids::text[])

-- name: record_engine_use
-- Only for the session that reported it. Locks in key order; a worker that is removed meanwhile is left out.
WITH locked_workers AS MATERIALIZED (
    SELECT worker_id, session_id FROM comfyui_workers
    WHERE worker_id = ANY (:worker_ids::text[])
    ORDER BY worker_id FOR KEY SHARE
)
INSERT INTO worker_engine_use (worker_id, session_id, engines)
SELECT w.worker_id, w.session_id, reported.engines::jsonb
FROM unnest(:worker_ids::text[], :session_ids::bigint[], :engines::text[])
    AS reported (worker_id, session_id, engines)
JOIN locked_workers w ON w.worker_id = reported.worker_id AND w.session_id = reported.session_id
ON CONFLICT (worker_id) DO UPDATE SET
    session_id = excluded.session_id, engines = excluded.engines, reported_at = clock_timestamp()

-- name: record_machines
-- Only for the session that reported it. What a report leaves out stays as the same session reported it before.
WITH locked_workers AS MATERIALIZED (
    SELECT worker_id, session_id FROM comfyui_workers
    WHERE worker_id = ANY (:worker_ids::text[])
    ORDER BY worker_id FOR KEY SHARE
)
INSERT INTO worker_machines AS known (worker_id, session_id, disk_free_bytes, disk_size_bytes, capabilities)
SELECT w.worker_id, w.session_id, reported.free_bytes, reported.size_bytes, reported.capabilities::jsonb
FROM unnest(:worker_ids::text[], :session_ids::bigint[], :free_bytes::bigint[], :size_bytes::bigint[],
        :capabilities::text[])
    AS reported (worker_id, session_id, free_bytes, size_bytes, capabilities)
JOIN locked_workers w ON w.worker_id = reported.worker_id AND w.session_id = reported.session_id
ON CONFLICT (worker_id) DO UPDATE SET
    session_id = excluded.session_id, reported_at = clock_timestamp(),
    disk_free_bytes = coalesce(excluded.disk_free_bytes,
        CASE WHEN known.session_id = excluded.session_id THEN known.disk_free_bytes END),
    disk_size_bytes = coalesce(excluded.disk_size_bytes,
        CASE WHEN known.session_id = excluded.session_id THEN known.disk_size_bytes END),
    capabilities = coalesce(excluded.capabilities,
        CASE WHEN known.session_id = excluded.session_id THEN known.capabilities END)

-- name: disks_of_workers
SELECT m.worker_id, m.disk_free_bytes AS free_bytes
FROM worker_machines m JOIN comfyui_workers w ON w.worker_id = m.worker_id AND w.session_id = m.session_id
WHERE m.disk_free_bytes IS NOT NULL AND w.revoked_at IS NULL
  AND w.last_seen_at > clock_timestamp() - make_interval(secs => :alive_seconds::double precision)
ORDER BY m.disk_free_bytes, m.worker_id LIMIT :limit

-- name: set_concurrency
-- Only for the session that reported the number: a newer registration has its own.
UPDATE comfyui_workers SET max_concurrency = :max_concurrency
WHERE worker_id = :worker_id AND session_id = :session_id AND max_concurrency <> :max_concurrency
