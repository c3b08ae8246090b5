-- database: central

-- name: queue_depth
-- Per workflow, bounded for any length of the queue: ready rows are counted lane by lane up to :max_rows (queue_heads
-- returns the oldest). Held and delayed rows are read by indexes that contain only such rows.
WITH held_jobs AS MATERIALIZED (
    SELECT workflow_id, count(*) FILTER (WHERE status = 'leased') AS leased,
        count(*) FILTER (WHERE status = 'waiting') AS waiting
    FROM ai_job_dispatches
    WHERE status <> 'queued'
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
    coalesce(held_jobs.leased, 0) AS leased, coalesce(held_jobs.waiting, 0) AS waiting, t.average_seconds
FROM workflows w
CROSS JOIN LATERAL (
    SELECT count(*) AS queued FROM (
        SELECT FROM dispatch_lanes l CROSS JOIN LATERAL (
            SELECT FROM ai_job_dispatches d
            WHERE d.lane_id = l.lane_id AND d.dispatch_id >= l.low_water
              AND d.status = 'queued' AND d.not_before IS NULL
            ORDER BY d.dispatch_id LIMIT :max_rows::bigint
        ) first
        WHERE l.workflow_id = w.id LIMIT :max_rows::bigint
    ) counted
) ready
LEFT JOIN held_jobs ON held_jobs.workflow_id = w.id
LEFT JOIN delayed_jobs ON delayed_jobs.workflow_id = w.id
LEFT JOIN workflow_timings t ON t.workflow_id = w.id
-- Task actors come last: most of them are idle on an installation with engines.
ORDER BY starts_with(w.slug, 'actor:'), w.slug

-- name: workers_of_workflows
-- The live workers of each workflow, stage and set of providers that has some, with their slots. Workers are read once,
-- and those of a fleet are added up before they are joined with its workflows: one look at each worker for each
-- workflow took 0.7 s with 10,000 workers and 20 workflows.
WITH held_leases AS MATERIALIZED (
    SELECT worker_id, count(*) AS jobs, max(lease_expires_at) AS last_expires_at FROM ai_job_dispatches
    WHERE status = 'leased'
    GROUP BY worker_id
), live_workers AS MATERIALIZED (
    SELECT c.worker_id, c.fleet_id, c.is_narrowed, c.environment, c.stage, c.providers, c.max_concurrency AS slots,
        -- A prefetched job takes no slot.
        least(c.max_concurrency, coalesce(held_leases.jobs, 0)) AS busy
    FROM comfyui_workers c LEFT JOIN held_leases ON held_leases.worker_id = c.worker_id
    WHERE c.is_approved AND c.revoked_at IS NULL
      AND NOT EXISTS (SELECT FROM worker_drains r WHERE r.worker_id = c.worker_id)
      -- A worker that sends no heartbeats while it renders is live as long as it has a valid lease.
      AND (c.last_seen_at > clock_timestamp() - make_interval(secs => :alive_seconds)
           OR held_leases.last_expires_at > clock_timestamp())
), active_fleets AS MATERIALIZED (
    SELECT f.id AS fleet_id, wf.workflow_id FROM workflow_fleets wf JOIN gpu_fleets f ON f.id = wf.fleet_id
    WHERE f.is_active
), worker_groups AS (
    SELECT fleet.workflow_id, crew.environment, crew.stage, crew.providers, crew.workers, crew.slots, crew.busy
    FROM (
        SELECT fleet_id, environment, stage, providers, count(*) AS workers, sum(slots) AS slots, sum(busy) AS busy
        FROM live_workers
        WHERE NOT is_narrowed
        GROUP BY fleet_id, environment, stage, providers
    ) crew JOIN active_fleets fleet ON fleet.fleet_id = crew.fleet_id
    UNION ALL
    SELECT ww.workflow_id, one.environment, one.stage, one.providers, count(*), sum(one.slots), sum(one.busy)
    FROM live_workers one JOIN worker_workflows ww ON ww.worker_id = one.worker_id
    WHERE one.fleet_id IS NULL OR one.is_narrowed AND EXISTS (
        SELECT FROM active_fleets fleet WHERE fleet.fleet_id = one.fleet_id AND fleet.workflow_id = ww.workflow_id)
    GROUP BY ww.workflow_id, one.environment, one.stage, one.providers
)
SELECT workflow_id, stage, providers, sum(workers)::bigint AS live_workers, sum(slots)::bigint AS live_slots,
    sum(busy)::bigint AS busy_slots
FROM worker_groups crew
WHERE NOT EXISTS (
    SELECT FROM environment_lacks l WHERE l.digest = crew.environment AND l.workflow_id = crew.workflow_id)
GROUP BY workflow_id, stage, providers

-- name: queue_heads
-- The first ready row of each lane. Lanes of a paused identifier are left out: an admin paused them on purpose.
SELECT l.workflow_id, w.slug, l.stage, l.provider, l.concurrency_identifier,
    extract(epoch FROM clock_timestamp() - head.created_at)::float8 AS wait_seconds, head.tenant_id, head.job_id,
    head.charge_cycle
FROM dispatch_lanes l JOIN workflows w ON w.id = l.workflow_id CROSS JOIN LATERAL (
    SELECT d.created_at, d.tenant_id, d.tenant_job_id AS job_id, d.charge_cycle FROM ai_job_dispatches d
    WHERE d.lane_id = l.lane_id AND d.dispatch_id >= l.low_water
      AND d.status = 'queued' AND d.not_before IS NULL
    ORDER BY d.dispatch_id LIMIT 1
) head
WHERE NOT EXISTS (
    SELECT FROM concurrency_limits c WHERE c.identifier = l.concurrency_identifier AND c.max_concurrent = 0)
ORDER BY l.lane_id

-- name: finished_lately
-- Dispatches of the last hour among the :max_rows newest, read by the existing key. An index on the time would be
-- written for every job that ends, and took a seventh of the statement that ends it. A workflow whose newest dispatches
-- finished earlier has a row of zeros: all rows together say how many dispatches were read. Each dispatch is counted
-- twice: for its workflow, and for its provider.
SELECT workflow_id, provider, count(*) FILTER (WHERE is_recent AND status = 'completed') AS completed,
    count(*) FILTER (WHERE is_recent AND status IN ('failed', 'expired')) AS failed,
    avg(duration_seconds) FILTER (WHERE is_recent AND status = 'completed') AS average_seconds,
    percentile_cont(0.95) WITHIN GROUP (ORDER BY duration_seconds)
        FILTER (WHERE is_recent AND status = 'completed') AS p95_seconds,
    sum(count(*)) FILTER (WHERE provider IS NULL) OVER ()::bigint AS jobs_read,
    greatest(min(min(finished_at)) OVER (), clock_timestamp() - interval '1 hour') AS since
FROM (
    SELECT workflow_id, provider, status, duration_seconds, finished_at,
        finished_at >= (SELECT clock_timestamp() - interval '1 hour') AS is_recent
    FROM dispatch_history
    ORDER BY dispatch_id DESC LIMIT :max_rows::bigint
) newest_finished
GROUP BY GROUPING SETS ((workflow_id), (provider))

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
