-- database: central
-- owns: removed_worker_tokens
-- Removes workers that disappeared, and checks instances again that AWS did not confirm.

-- name: find_stale_workers
-- Workers that were silent too long and hold no lease. A worker keeps a lease until it expires, with or without
-- heartbeats. The reaper then takes the lease back, and after that the worker is found here.
SELECT w.worker_id, w.session_id FROM comfyui_workers w
WHERE w.revoked_at IS NULL AND w.last_seen_at < clock_timestamp() - make_interval(secs => :stale_seconds)
  AND NOT EXISTS (SELECT FROM ai_job_dispatches d WHERE d.worker_id = w.worker_id AND d.status = 'leased')
ORDER BY w.worker_id LIMIT :limit

-- name: remove_stale_worker
-- Checks all conditions again, for the same registration: the worker may just have returned or got a job. Run after
-- lock_drains, so that a lease in progress is waited for and seen.
-- The token hashes are kept, so that the response to the worker's next request says to register again.
WITH removed_worker AS (
    DELETE FROM comfyui_workers w
    WHERE w.worker_id = :worker_id AND w.session_id = :session_id AND w.revoked_at IS NULL
      AND w.last_seen_at < clock_timestamp() - make_interval(secs => :stale_seconds)
      AND NOT EXISTS (SELECT FROM ai_job_dispatches d WHERE d.worker_id = :worker_id AND d.status = 'leased')
    RETURNING w.session_id, w.token_hash, w.next_token_hash
)
INSERT INTO removed_worker_tokens (token_hash, session_id)
SELECT tokens.hash, w.session_id
FROM removed_worker w CROSS JOIN LATERAL unnest(ARRAY[w.token_hash, w.next_token_hash]) AS tokens (hash)
WHERE tokens.hash IS NOT NULL

-- name: forget_removed_tokens
DELETE FROM removed_worker_tokens
WHERE removed_at < (SELECT clock_timestamp() - make_interval(days => :days::integer))

-- name: find_left_behind
-- Leases whose worker is gone: its last session has ended, or started after the lease. A process crashed before it
-- requeued them, or a poll was open at that moment. Reads rows of the queue, in the same database: as many as there are
-- jobs in progress. Leases of workers that never registered here are not included.
SELECT d.dispatch_id, d.lease_token, d.worker_id, last.id AS session_id,
    coalesce(last.end_reason LIKE 'deregistered%', false) AS was_deregistered
FROM ai_job_dispatches d CROSS JOIN LATERAL (
    SELECT s.id, s.started_at, s.ended_at, s.end_reason FROM worker_sessions s
    WHERE s.worker_id = d.worker_id ORDER BY s.id DESC LIMIT 1
) last
WHERE d.status <> 'queued' AND d.lease_token IS NOT NULL
  AND (last.ended_at IS NOT NULL OR d.last_leased_at < last.started_at)
ORDER BY d.worker_id, d.dispatch_id LIMIT :limit

-- name: find_unverified_workers
SELECT worker_id, session_id
FROM comfyui_workers
WHERE asg_unverified AND revoked_at IS NULL
ORDER BY worker_id LIMIT :limit

-- name: settle_unverified
UPDATE comfyui_workers SET asg_unverified = false
WHERE worker_id = :worker_id AND session_id = :session_id AND asg_unverified
