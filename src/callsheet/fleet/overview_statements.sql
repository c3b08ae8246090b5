-- database: central

-- name: queue_depth
-- Per workflow, bounded for any length of the queue: ready rows are counted lane by lane up to :most (queue_heads
-- returns the oldest). Held and delayed rows are read by indexes that contain only such rows.
WITH held_jobs AS MATERIALIZED (
    SELECT workflow_id, count(*) FILTER (WHERE status = 'leased') AS leased,
        count(*) FILTER (WHERE status = 'waiting') AS waiting
    FROM (SELECT workflow_id, status FROM ai_job_dispatches WHERE status <> 'queued' ORDER BY worker_id, dispatch_id) h
    GROUP BY workflow_id
), delayed_jobs AS MATERIALIZED (
    SELECT workflow_id, count(*) AS delayed FROM (
        SELECT workflow_id FROM ai_job_dispatches
        WHERE status = 'queued' AND not_before IS NOT NULL
        ORDER BY not_before LIMIT 100000
    ) d
    GROUP BY workflow_id
)
SELECT w.id AS workflow_id, w.slug, w.is_active, ready.queued, coalesce(delayed_jobs.delayed, 0) AS delayed,
    coalesce(held_jobs.leased, 0) AS leased, coalesce(held_jobs.waiting, 0) AS waiting,
    t.average_seconds, crew.live_workers, crew.live_slots, crew.busy_slots
FROM workflows w
CROSS JOIN LATERAL (
    SELECT count(*) AS queued FROM (
        SELECT FROM dispatch_lanes l CROSS JOIN LATERAL (
            SELECT FROM ai_job_dispatches d
            WHERE d.lane_id = l.lane_id AND d.dispatch_id >= l.low_water
              AND d.status = 'queued' AND d.not_before IS NULL
            ORDER BY d.dispatch_id LIMIT :most::bigint
        ) first
        WHERE l.workflow_id = w.id LIMIT :most::bigint
    ) counted
) ready
CROSS JOIN LATERAL (
    SELECT count(*) AS live_workers, coalesce(sum(c.max_concurrency), 0)::bigint AS live_slots,
        -- A prefetched job takes no slot.
        coalesce(sum(least(c.max_concurrency, (
            SELECT count(*) FROM ai_job_dispatches d
            WHERE d.worker_id = c.worker_id AND d.status = 'leased'))), 0)::bigint AS busy_slots
    FROM (
        SELECT m.* FROM workflow_fleets wf
        JOIN gpu_fleets f ON f.id = wf.fleet_id AND f.is_active JOIN comfyui_workers m ON m.fleet_id = f.id
        WHERE wf.workflow_id = w.id AND (NOT m.is_narrowed OR EXISTS (
            SELECT FROM worker_workflows ww WHERE ww.worker_id = m.worker_id AND ww.workflow_id = w.id))
        UNION ALL
        SELECT m.* FROM worker_workflows ww JOIN comfyui_workers m ON m.worker_id = ww.worker_id AND m.fleet_id IS NULL
        WHERE ww.workflow_id = w.id
    ) c
    WHERE c.is_approved AND c.revoked_at IS NULL
      AND NOT EXISTS (SELECT FROM worker_drains r WHERE r.worker_id = c.worker_id)
      AND NOT EXISTS (SELECT FROM environment_lacks l WHERE l.digest = c.environment AND l.workflow_id = w.id)
      -- A worker that sends no heartbeats while it renders is live as long as it has a valid lease.
      AND (c.last_seen_at > clock_timestamp() - make_interval(secs => :alive_seconds)
           OR EXISTS (
               SELECT FROM ai_job_dispatches d
               WHERE d.worker_id = c.worker_id AND d.status = 'leased' AND d.lease_expires_at > clock_timestamp()))
) crew
LEFT JOIN held_jobs ON held_jobs.workflow_id = w.id
LEFT JOIN delayed_jobs ON delayed_jobs.workflow_id = w.id
LEFT JOIN workflow_timings t ON t.workflow_id = w.id
-- Task actors come last: most of them are idle on an installation with engines.
ORDER BY starts_with(w.slug, 'actor:'), w.slug

-- name: queue_heads
-- The first ready row of each lane. Lanes of a paused identifier are left out: an admin paused them on purpose.
SELECT l.workflow_id, w.slug, l.stage, l.provider, l.concurrency_identifier,
    extract(epoch FROM clock_timestamp() - head.created_at)::float8 AS wait_seconds
FROM dispatch_lanes l JOIN workflows w ON w.id = l.workflow_id CROSS JOIN LATERAL (
    SELECT d.created_at FROM ai_job_dispatches d
    WHERE d.lane_id = l.lane_id AND d.dispatch_id >= l.low_water
      AND d.status = 'queued' AND d.not_before IS NULL
    ORDER BY d.dispatch_id LIMIT 1
) head
WHERE NOT EXISTS (
    SELECT FROM concurrency_limits c WHERE c.identifier = l.concurrency_identifier AND c.max_concurrent = 0)
ORDER BY l.lane_id

-- name: finished_lately
-- Dispatches of the last hour among the :most newest, read by the existing key. An index on the time would be written
-- for every job that ends, and took a seventh of the statement that ends it.
WITH newest_finished AS MATERIALIZED (
    SELECT workflow_id, status, duration_seconds, finished_at FROM dispatch_history
    ORDER BY dispatch_id DESC LIMIT :most::bigint
)
SELECT workflow_id, count(*) FILTER (WHERE status = 'completed') AS completed,
    count(*) FILTER (WHERE status IN ('failed', 'expired')) AS failed,
    avg(duration_seconds) FILTER (WHERE status = 'completed') AS average_seconds,
    percentile_cont(0.95) WITHIN GROUP (ORDER BY duration_seconds)
        FILTER (WHERE status = 'completed') AS p95_seconds,
    (SELECT count(*) FROM newest_finished) AS looked_at,
    (SELECT greatest(min(finished_at), clock_timestamp() - interval '1 hour') FROM newest_finished) AS since
FROM newest_finished
WHERE finished_at >= clock_timestamp() - interval '1 hour'
GROUP BY workflow_id

-- name: count_workers
SELECT clock_timestamp() AS now,
    count(*) FILTER (WHERE is_approved AND NOT is_draining AND revoked_at IS NULL AND is_alive) AS live,
    count(*) FILTER (WHERE NOT is_approved AND revoked_at IS NULL AND is_alive) AS unapproved,
    count(*) FILTER (WHERE is_draining AND revoked_at IS NULL AND is_alive) AS draining,
    count(*) FILTER (WHERE asg_unverified AND revoked_at IS NULL AND is_alive) AS unverified
FROM (
    SELECT c.is_approved, c.revoked_at, c.asg_unverified,
        EXISTS (SELECT FROM worker_drains r WHERE r.worker_id = c.worker_id) AS is_draining,
        c.last_seen_at > clock_timestamp() - make_interval(secs => :alive_seconds) AS is_alive
    FROM comfyui_workers c
) w
