-- database: central
-- owns: worker_drains
-- Drains of workers, by admins and by the autoscaler.

-- name: lock_drains
-- Waits for leases in progress; later leases wait for the end of this transaction (see drained_workers). Used to drain
-- a worker and to remove a stale one.
SELECT pg_advisory_xact_lock(hashtextextended('callsheet drains', 0))

-- name: drain_worker
-- A repeated drain changes neither the time nor the author of the first one. Only a drain of the autoscaler becomes
-- that of the person who repeats it: the autoscaler then neither undoes it nor ends the worker.
INSERT INTO worker_drains AS known (worker_id, drained_by, reason) VALUES (:worker_id, :drained_by, :reason)
ON CONFLICT (worker_id) DO UPDATE SET
    reason = coalesce(excluded.reason, known.reason),
    drained_by = CASE WHEN known.drained_by = 'autoscaler' AND known.ending_since IS NULL
        THEN excluded.drained_by ELSE known.drained_by END

-- name: undrain_worker
-- Not while the autoscaler is ending the worker. If its fleet is no longer scaled, the autoscaler ends nothing.
DELETE FROM worker_drains r
WHERE r.worker_id = :worker_id AND (r.ending_since IS NULL OR NOT EXISTS (
    SELECT FROM comfyui_workers c JOIN fleet_scaling s ON s.fleet_id = c.fleet_id WHERE c.worker_id = :worker_id))
RETURNING r.worker_id

-- name: is_ending
SELECT EXISTS (SELECT FROM worker_drains WHERE worker_id = :worker_id AND ending_since IS NOT NULL)

-- name: retire_workers
-- Drains of the autoscaler. Run after lock_drains, so that a lease in progress is waited for and seen.
INSERT INTO worker_drains (worker_id, drained_by, reason)
SELECT wanted.id, :drained_by, :reason FROM unnest(:worker_ids::text[]) AS wanted (id)
WHERE :also_busy::boolean OR NOT EXISTS (
    SELECT FROM ai_job_dispatches d WHERE d.worker_id = wanted.id AND d.status = 'leased')
ORDER BY wanted.id
ON CONFLICT (worker_id) DO NOTHING
RETURNING worker_id

-- name: reinstate_workers
DELETE FROM worker_drains
WHERE worker_id = ANY (:worker_ids::text[]) AND drained_by = :drained_by AND ending_since IS NULL
RETURNING worker_id

-- name: begin_to_end
-- No lease follows a committed drain, so a worker without a lease here will not get one. If the drain is being deleted,
-- this statement waits and does not find the row: the undrain came first.
UPDATE worker_drains r SET ending_since = clock_timestamp()
WHERE r.worker_id = ANY (:worker_ids::text[]) AND r.drained_by = :drained_by AND r.ending_since IS NULL
  AND NOT EXISTS (SELECT FROM ai_job_dispatches d WHERE d.worker_id = r.worker_id AND d.status = 'leased')
RETURNING r.worker_id

-- name: forget_ended
-- Only ids without a worker: another worker may use such an id later.
DELETE FROM worker_drains r
WHERE r.worker_id = ANY (:worker_ids::text[]) AND r.drained_by = :drained_by
  AND NOT EXISTS (SELECT FROM comfyui_workers c WHERE c.worker_id = r.worker_id AND c.revoked_at IS NULL)

-- name: forget_drain
-- Only for in-process workers: their ids are never used again, because every process has its own.
DELETE FROM worker_drains WHERE worker_id = :worker_id AND starts_with(worker_id, :own_prefix)
