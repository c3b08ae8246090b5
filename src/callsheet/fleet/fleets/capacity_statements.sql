-- database: central
-- Workers that could take the jobs of a route now.

-- part: workers_of_route
-- Workers of active fleets with the workflow of the route, and workers that the workflow is assigned to.
SELECT m.worker_id, m.environment, m.max_concurrency, m.last_seen_at, m.is_approved, m.revoked_at, m.providers
FROM workflow_fleets wf
JOIN gpu_fleets f ON f.id = wf.fleet_id AND f.is_active AND f.stage = routes.stage
JOIN comfyui_workers m ON m.fleet_id = f.id
WHERE wf.workflow_id = routes.workflow_id AND (NOT m.is_narrowed OR EXISTS (
    SELECT FROM worker_workflows ww
    WHERE ww.worker_id = m.worker_id AND ww.workflow_id = routes.workflow_id))
UNION ALL
SELECT m.worker_id, m.environment, m.max_concurrency, m.last_seen_at, m.is_approved, m.revoked_at, m.providers
FROM worker_workflows ww
JOIN comfyui_workers m ON m.worker_id = ww.worker_id AND m.fleet_id IS NULL AND m.stage = routes.stage
WHERE ww.workflow_id = routes.workflow_id

-- name: capacity
-- The workers that could take jobs of each route now, and their slots. A worker that sends no heartbeats while it
-- renders counts as long as it has a valid lease, with the slots that it uses. A prefetched job takes no slot.
WITH routes AS MATERIALIZED (
    SELECT * FROM unnest(:workflow_ids::bigint[], :stages::text[], :providers::text[]) WITH ORDINALITY
        AS a (workflow_id, stage, provider, place)
)
SELECT routes.place, crew.live_workers, crew.slots, crew.busy, crew.draining, scaling.up AS scaling_up, crew.unable,
    scaling.starts_in_seconds
FROM routes CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE w.is_able) AS live_workers,
        coalesce(sum(w.max_concurrency) FILTER (WHERE w.is_able), 0)::bigint AS slots,
        coalesce(sum(least(w.held, w.max_concurrency)) FILTER (WHERE w.is_able), 0)::bigint AS busy,
        count(*) FILTER (WHERE w.is_draining) AS draining,
        count(*) FILTER (WHERE NOT w.is_draining AND NOT w.is_able) AS unable
    FROM (
        SELECT drain.is_draining, leased.held, NOT drain.is_draining AND NOT EXISTS (
                SELECT FROM environment_lacks l
                WHERE l.digest = c.environment AND l.workflow_id = routes.workflow_id) AS is_able,
            CASE WHEN c.was_seen THEN c.max_concurrency ELSE leased.held END AS max_concurrency
        FROM (
            SELECT m.worker_id, m.environment, m.max_concurrency, m.is_approved, m.revoked_at, m.providers,
                m.last_seen_at > clock_timestamp() - make_interval(secs => :alive_seconds) AS was_seen
            FROM (
                {workers_of_route}
            ) m
        ) c CROSS JOIN LATERAL (
            SELECT count(*) AS held, coalesce(bool_or(d.lease_expires_at > clock_timestamp()), false) AS is_valid
            FROM ai_job_dispatches d
            WHERE d.worker_id = c.worker_id AND d.status = 'leased'
        ) leased CROSS JOIN LATERAL (
            SELECT EXISTS (SELECT FROM worker_drains r WHERE r.worker_id = c.worker_id) AS is_draining
        ) drain
        WHERE c.is_approved AND c.revoked_at IS NULL AND routes.provider = ANY (c.providers)
          AND (c.was_seen OR leased.is_valid)
    ) w
) crew CROSS JOIN LATERAL (
    -- No worker is starting if the driver fails, or if scaling is paused because this database may be a copy.
    SELECT count(*) > 0 AS up,
        extract(epoch FROM min(f.next_worker_at) - clock_timestamp())::float8 AS starts_in_seconds
    FROM workflow_fleets wf JOIN gpu_fleets f ON f.id = wf.fleet_id
    WHERE wf.workflow_id = routes.workflow_id AND f.is_active AND f.stage = routes.stage
      AND NOT EXISTS (SELECT FROM fleet_scaling s
                      WHERE s.fleet_id = f.id AND (s.driver_error IS NOT NULL OR s.cause = 'paused'))
      AND f.desired_workers > (
        SELECT count(*) FROM comfyui_workers c
        WHERE c.fleet_id = f.id AND c.is_approved AND c.revoked_at IS NULL
          AND NOT EXISTS (SELECT FROM worker_drains r WHERE r.worker_id = c.worker_id)
          AND (c.last_seen_at > clock_timestamp() - make_interval(secs => :alive_seconds)
               OR EXISTS (
                   SELECT FROM ai_job_dispatches d
                   WHERE d.worker_id = c.worker_id AND d.status = 'leased'
                     AND d.lease_expires_at > clock_timestamp())))
) scaling

-- name: lacks_of_routes
-- What the live workers of a route lack, and how many of them lack it. Used if no worker can run the route. The workers
-- come first: an installation may keep thousands of environments that lack a workflow.
WITH routes AS MATERIALIZED (
    SELECT * FROM unnest(:workflow_ids::bigint[], :stages::text[], :providers::text[]) WITH ORDINALITY
        AS a (workflow_id, stage, provider, place)
), live_environments AS MATERIALIZED (
    SELECT routes.place, routes.workflow_id, c.environment, count(*) AS workers
    FROM routes CROSS JOIN LATERAL (
        {workers_of_route}
    ) c
    WHERE c.is_approved AND c.revoked_at IS NULL AND routes.provider = ANY (c.providers)
      AND c.last_seen_at > clock_timestamp() - make_interval(secs => :alive_seconds)
      AND NOT EXISTS (SELECT FROM worker_drains r WHERE r.worker_id = c.worker_id)
    GROUP BY routes.place, routes.workflow_id, c.environment
)
SELECT live.place, lack.value ->> 'kind' AS kind, lack.value ->> 'name' AS name, sum(live.workers)::bigint AS workers
FROM live_environments live
JOIN environment_lacks l ON l.digest = live.environment AND l.workflow_id = live.workflow_id
CROSS JOIN LATERAL jsonb_array_elements(l.lacks) AS lack (value)
GROUP BY live.place, lack.value
ORDER BY live.place, workers DESC, lack.value ->> 'kind' DESC, lack.value ->> 'name'

-- name: lacks_of_absent_workers
-- What the last workers of scaled fleets lacked. Used if no worker of the route is live: no worker is started for its
-- jobs. The fleets come first: an installation may keep thousands of environments that lack a workflow, and a plan that
-- starts with these read 320,000 blocks for two routes.
WITH routes AS MATERIALIZED (
    SELECT * FROM unnest(:workflow_ids::bigint[], :stages::text[], :providers::text[]) WITH ORDINALITY
        AS a (workflow_id, stage, provider, place)
), last_environments AS MATERIALIZED (
    SELECT routes.place, routes.workflow_id, e.digest
    FROM routes JOIN workflow_fleets wf ON wf.workflow_id = routes.workflow_id
    JOIN gpu_fleets f ON f.id = wf.fleet_id AND f.is_active AND f.stage = routes.stage
    JOIN fleet_scaling s ON s.fleet_id = f.id AND routes.provider = ANY (s.providers)
    JOIN fleet_environments e ON e.fleet_id = s.fleet_id
)
SELECT last.place, l.lacks
FROM last_environments last JOIN environment_lacks l ON l.digest = last.digest AND l.workflow_id = last.workflow_id
ORDER BY last.place, l.digest

-- name: is_runnable_elsewhere
-- Whether a live worker that did not refuse the dispatch could run it now.
SELECT EXISTS (
    SELECT FROM (SELECT workflow_id, stage, provider FROM ai_job_dispatches WHERE dispatch_id = :dispatch_id) routes
    CROSS JOIN LATERAL (
        {workers_of_route}
    ) c
    WHERE c.worker_id <> ALL (:refused_by::text[]) AND c.is_approved AND c.revoked_at IS NULL
      AND routes.provider = ANY (c.providers)
      AND NOT EXISTS (SELECT FROM worker_drains r WHERE r.worker_id = c.worker_id)
      AND NOT EXISTS (
        SELECT FROM environment_lacks l WHERE l.digest = c.environment AND l.workflow_id = routes.workflow_id)
      AND (c.last_seen_at > clock_timestamp() - make_interval(secs => :alive_seconds) OR EXISTS (
        SELECT FROM ai_job_dispatches d
        WHERE d.worker_id = c.worker_id AND d.status = 'leased' AND d.lease_expires_at > clock_timestamp())))

-- name: graph_of_workflow
SELECT comfyui_workflow_path, properties FROM workflows WHERE id = :workflow_id

-- name: queued_by_route
-- Queued jobs per workflow and provider, counted lane by lane from the lane's low_water, up to :max_rows per lane.
-- Rows of the queue, read here because only a worker that requests a job beyond its capacity needs the number.
SELECT lane.workflow_id, lane.provider, sum(waiting.rows)::bigint AS queued
FROM dispatch_lanes lane CROSS JOIN LATERAL (
    SELECT count(*) AS rows FROM (
        SELECT FROM ai_job_dispatches d
        WHERE (d.lane_id, d.dispatch_id) >= (lane.lane_id, lane.low_water) AND d.lane_id <= lane.lane_id
          AND d.status = 'queued' AND d.not_before IS NULL
        ORDER BY d.lane_id, d.dispatch_id LIMIT :max_rows::bigint
    ) counted
) waiting
WHERE lane.workflow_id = ANY (:workflow_ids::bigint[]) AND lane.stage = :stage
  AND lane.provider = ANY (:providers::text[])
GROUP BY lane.workflow_id, lane.provider
