-- database: central

-- name: scaled_fleets
SELECT f.slug AS fleet, f.stage, s.driver, s.maximum, s.cause, s.reason, s.driver_error, s.driver_failures,
    extract(epoch FROM clock_timestamp() - s.at_maximum_since)::float8 AS at_maximum_seconds,
    s.at_maximum_queued_seconds AS queued_seconds_then, s.queued_seconds
FROM fleet_scaling s JOIN gpu_fleets f ON f.id = s.fleet_id ORDER BY f.slug, f.stage

-- name: paused_providers
SELECT provider, failures, last_error, shut_for
FROM provider_breakers
WHERE open_until IS NOT NULL
ORDER BY provider LIMIT 100

-- name: paused_limits
SELECT identifier FROM concurrency_limits WHERE max_concurrent = 0 ORDER BY identifier LIMIT 100

-- name: engine_killers
-- Workflows with a job during which an engine crashed or hung more than once in the last day: once may be a restart by
-- an operator. The time is a sub-select, because a volatile function cannot be an index condition.
WITH crashing_jobs AS MATERIALIZED (
    SELECT dispatch_id, count(*) AS times FROM worker_audit_logs
    WHERE at > (SELECT clock_timestamp() - interval '24 hours')
      AND event = 'failed' AND details ->> 'type' IN ('engine_stuck', 'run_lost', 'engine_unreachable')
    GROUP BY dispatch_id
    HAVING count(*) > 1
), crashes AS (
    SELECT crashing_jobs.times, coalesce(
        (SELECT d.workflow_id FROM ai_job_dispatches d WHERE d.dispatch_id = crashing_jobs.dispatch_id),
        (SELECT h.workflow_id FROM dispatch_history h WHERE h.dispatch_id = crashing_jobs.dispatch_id)) AS workflow_id
    FROM crashing_jobs
)
SELECT w.slug AS workflow, sum(crashes.times)::bigint AS times, count(*) AS jobs
FROM crashes JOIN workflows w ON w.id = crashes.workflow_id
GROUP BY w.slug ORDER BY times DESC, w.slug LIMIT :limit

-- name: low_worker_disks
SELECT m.worker_id, m.disk_free_bytes AS free_bytes, m.disk_size_bytes AS size_bytes
FROM worker_machines m JOIN comfyui_workers w ON w.worker_id = m.worker_id AND w.session_id = m.session_id
WHERE m.disk_free_bytes < :below AND w.is_approved AND w.revoked_at IS NULL
  AND w.last_seen_at > clock_timestamp() - make_interval(secs => :alive_seconds::double precision)
ORDER BY m.disk_free_bytes, m.worker_id LIMIT :limit
