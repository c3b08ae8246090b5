-- database: central
-- owns: fleet_environments, fleet_scaling, scaling_decisions

-- name: has_scaled
SELECT EXISTS (SELECT FROM fleet_scaling)

-- name: list_scaled
-- Times are seconds since 1970 by this database's clock, as in the policy.
SELECT s.fleet_id, f.slug, f.stage, f.is_active, extract(epoch FROM clock_timestamp())::float8 AS now,
    s.driver, s.options, s.providers, s.minimum, s.maximum, s.target_seconds, s.warm_up_seconds,
    s.scale_out_cooldown_seconds, s.scale_in_cooldown_seconds, s.idle_seconds, s.on_demand_minimum, s.spot_share,
    s.installation_id, s.central_system, s.central_database, s.updated_at, s.memory, s.wanted, s.on_demand, s.cause,
    s.driver_failures,
    ARRAY (SELECT wf.workflow_id FROM workflow_fleets wf JOIN workflows k ON k.id = wf.workflow_id AND k.is_active
           WHERE wf.fleet_id = f.id AND f.is_active ORDER BY wf.workflow_id) AS workflow_ids,
    ARRAY (SELECT encode(e.digest, 'hex') FROM fleet_environments e
           WHERE e.fleet_id = f.id
           ORDER BY e.digest) AS environments,
    coalesce((SELECT max(e.seen_at) FROM fleet_environments e WHERE e.fleet_id = f.id)
        < clock_timestamp() - make_interval(secs => :trial_seconds), false) AS is_trial_due
FROM fleet_scaling s JOIN gpu_fleets f ON f.id = s.fleet_id ORDER BY s.fleet_id

-- name: workers_of_scaled
-- A usable worker is approved, not revoked, and was seen recently or has a valid lease.
SELECT c.fleet_id, c.worker_id AS id, c.max_concurrency AS slots, c.providers,
    c.capacity_type IS DISTINCT FROM 'on-demand' AS is_spot,
    extract(epoch FROM c.registered_at)::float8 AS registered_at, held.jobs AS busy,
    c.is_approved AND c.revoked_at IS NULL AND (held.is_valid
        OR c.last_seen_at > clock_timestamp() - make_interval(secs => :alive_seconds)) AS is_usable,
    r.worker_id IS NOT NULL AS is_drained, coalesce(r.drained_by = :autoscaler, false) AS is_retired,
    coalesce(r.drained_by = :autoscaler AND r.ending_since IS NOT NULL, false) AS is_ending,
    encode(c.environment, 'hex') AS environment,
    worked.jobs_completed + worked.jobs_failed + worked.jobs_requeued AS ended_leases,
    worked.busy_seconds AS ended_seconds
FROM fleet_scaling s JOIN comfyui_workers c ON c.fleet_id = s.fleet_id
JOIN worker_sessions worked ON worked.id = c.session_id
LEFT JOIN worker_drains r ON r.worker_id = c.worker_id
CROSS JOIN LATERAL (
    SELECT count(*) AS jobs, coalesce(bool_or(d.lease_expires_at > clock_timestamp()), false) AS is_valid
    FROM ai_job_dispatches d
    WHERE d.worker_id = c.worker_id AND d.status = 'leased'
) held
ORDER BY c.worker_id

-- name: lacks_of_environments
SELECT encode(l.digest, 'hex') AS environment, l.workflow_id, l.lacks FROM environment_lacks l
WHERE l.digest = ANY (ARRAY (SELECT decode(hash, 'hex') FROM unnest(:environments::text[]) hash))

-- name: count_registered
-- The same count as in a registration: in-process workers do not count.
SELECT count(*)::integer FROM comfyui_workers WHERE revoked_at IS NULL AND NOT starts_with(worker_id, :own_prefix)

-- name: waiting_routes
-- Jobs that wait for scaled fleets and could be leased now, counted lane by lane from low_water, up to :max_rows per
-- route, so the whole queue is never read. Delayed jobs and jobs of an identifier at its limit are not counted.
WITH served_route AS MATERIALIZED (
    SELECT DISTINCT wf.workflow_id, f.stage FROM fleet_scaling s JOIN gpu_fleets f ON f.id = s.fleet_id AND f.is_active
    JOIN workflow_fleets wf ON wf.fleet_id = f.id JOIN workflows k ON k.id = wf.workflow_id AND k.is_active
), route AS MATERIALIZED (
    SELECT DISTINCT l.workflow_id, l.stage, l.provider FROM served_route
    JOIN dispatch_lanes l ON l.workflow_id = served_route.workflow_id AND l.stage = served_route.stage AND l.has_work
)
SELECT route.workflow_id, route.stage, route.provider, counted.jobs,
    (SELECT t.average_seconds FROM workflow_timings t WHERE t.workflow_id = route.workflow_id) AS average_seconds
FROM route CROSS JOIN LATERAL (
    SELECT count(*)::integer AS jobs FROM (
        SELECT FROM dispatch_lanes l CROSS JOIN LATERAL (
            SELECT FROM ai_job_dispatches d
            WHERE (d.lane_id, d.dispatch_id) >= (l.lane_id, l.low_water) AND d.lane_id <= l.lane_id
              AND d.status = 'queued' AND d.not_before IS NULL
            ORDER BY d.lane_id, d.dispatch_id LIMIT :max_rows::bigint
        ) first
        WHERE l.workflow_id = route.workflow_id AND l.stage = route.stage AND l.provider = route.provider AND l.has_work
          AND (l.concurrency_identifier = '' OR coalesce(
              (SELECT c.max_concurrent FROM concurrency_limits c WHERE c.identifier = l.concurrency_identifier)
              > (SELECT count(*) FROM ai_job_dispatches d
                 WHERE d.concurrency_identifier = l.concurrency_identifier AND d.concurrency_identifier <> ''
                   AND d.status <> 'queued'), true))
        LIMIT :max_rows::bigint
    ) ready
) counted
ORDER BY route.workflow_id, route.stage, route.provider

-- name: free_slots_elsewhere
-- For each route, the free slots of workers that can run the workflow and belong to no scaled fleet. The slots of a
-- fleet are summed once for all routes, per environment of the engines.
WITH route AS MATERIALIZED (
    SELECT * FROM unnest(:workflow_ids::bigint[], :stages::text[], :providers::text[])
        AS r (workflow_id, stage, provider)
), other_fleet AS MATERIALIZED (
    SELECT DISTINCT f.id, f.stage FROM route JOIN workflow_fleets wf ON wf.workflow_id = route.workflow_id
    JOIN gpu_fleets f ON f.id = wf.fleet_id AND f.is_active AND f.stage = route.stage
    WHERE NOT EXISTS (SELECT FROM fleet_scaling s WHERE s.fleet_id = f.id)
), usable_worker AS MATERIALIZED (
    SELECT w.worker_id, w.fleet_id, w.stage, w.providers, w.environment, w.is_narrowed,
        greatest(0, w.max_concurrency - (
            SELECT count(*) FROM ai_job_dispatches d
            WHERE d.worker_id = w.worker_id AND d.status = 'leased')) AS slots
    FROM (
        SELECT m.worker_id, m.fleet_id, m.stage, m.providers, m.environment, m.is_narrowed, m.max_concurrency,
            m.is_approved, m.revoked_at, m.last_seen_at
        FROM other_fleet JOIN comfyui_workers m ON m.fleet_id = other_fleet.id
        UNION ALL
        SELECT m.worker_id, m.fleet_id, m.stage, m.providers, m.environment, m.is_narrowed, m.max_concurrency,
            m.is_approved, m.revoked_at, m.last_seen_at
        FROM (
            SELECT DISTINCT ww.worker_id FROM route JOIN worker_workflows ww ON ww.workflow_id = route.workflow_id
        ) named JOIN comfyui_workers m ON m.worker_id = named.worker_id AND m.fleet_id IS NULL
    ) w
    WHERE w.is_approved AND w.revoked_at IS NULL
      AND w.last_seen_at > clock_timestamp() - make_interval(secs => :alive_seconds)
      AND NOT EXISTS (SELECT FROM worker_drains r WHERE r.worker_id = w.worker_id)
), fleet_slots AS MATERIALIZED (
    SELECT w.fleet_id, other_fleet.stage, p.provider, w.environment, sum(w.slots) AS slots
    FROM usable_worker w JOIN other_fleet ON other_fleet.id = w.fleet_id
    CROSS JOIN LATERAL unnest(w.providers) AS p (provider)
    WHERE NOT w.is_narrowed
    GROUP BY w.fleet_id, other_fleet.stage, p.provider, w.environment
)
SELECT route.workflow_id, route.stage, route.provider,
    (coalesce(fleets.slots, 0) + coalesce(named.slots, 0))::integer AS slots
FROM route CROSS JOIN LATERAL (
    SELECT sum(free.slots) AS slots FROM fleet_slots free
    WHERE free.stage = route.stage AND free.provider = route.provider
      AND EXISTS (
          SELECT FROM workflow_fleets wf WHERE wf.fleet_id = free.fleet_id AND wf.workflow_id = route.workflow_id)
      AND NOT EXISTS (
          SELECT FROM environment_lacks l WHERE l.digest = free.environment AND l.workflow_id = route.workflow_id)
) fleets CROSS JOIN LATERAL (
    SELECT sum(free.slots) AS slots FROM worker_workflows ww JOIN usable_worker free ON free.worker_id = ww.worker_id
    WHERE ww.workflow_id = route.workflow_id AND route.provider = ANY (free.providers)
      AND (free.fleet_id IS NULL AND free.stage = route.stage OR free.is_narrowed AND EXISTS (
          SELECT FROM other_fleet f JOIN workflow_fleets wf ON wf.fleet_id = f.id AND wf.workflow_id = route.workflow_id
          WHERE f.id = free.fleet_id AND f.stage = route.stage))
      AND NOT EXISTS (
          SELECT FROM environment_lacks l WHERE l.digest = free.environment AND l.workflow_id = route.workflow_id)
) named

-- name: lock_scaling
-- Checks that the configuration has not changed since it was read. A later change waits for the decision.
SELECT fleet_id FROM fleet_scaling WHERE fleet_id = :fleet_id AND updated_at = :updated_at FOR NO KEY UPDATE

-- name: keep_observation
-- at_maximum_since keeps its value as long as the fleet is at its maximum.
UPDATE fleet_scaling SET
    memory = :memory, checked_at = clock_timestamp(), wanted = :wanted, on_demand = :on_demand, serving = :serving,
    coming = :coming, draining = :draining, existing = :existing, queued_jobs = :queued_jobs,
    queued_seconds = :queued_seconds, cause = :cause, reason = :reason,
    at_maximum_since = CASE WHEN :cause::text = 'at_maximum' THEN coalesce(at_maximum_since, clock_timestamp()) END,
    at_maximum_queued_seconds = CASE WHEN :cause::text = 'at_maximum'
        THEN coalesce(at_maximum_queued_seconds, :queued_seconds::float8) END
WHERE fleet_id = :fleet_id

-- name: keep_queue
-- Stores only the queue, because the driver failed.
UPDATE fleet_scaling SET checked_at = clock_timestamp(), queued_jobs = :queued_jobs, queued_seconds = :queued_seconds
WHERE fleet_id = :fleet_id

-- name: forget_environments
-- All but :environments.
DELETE FROM fleet_environments WHERE fleet_id = :fleet_id AND encode(digest, 'hex') <> ALL (:environments::text[])

-- name: keep_environments
-- seen_at is updated once per minute. The lock keeps an environment that no worker has any more from being deleted now.
WITH environment AS MATERIALIZED (
    SELECT digest FROM worker_environments
    WHERE digest = ANY (ARRAY (SELECT decode(hash, 'hex') FROM unnest(:environments::text[]) hash)) FOR KEY SHARE
)
INSERT INTO fleet_environments AS kept (fleet_id, digest) SELECT :fleet_id, digest FROM environment
ON CONFLICT (fleet_id, digest) DO UPDATE SET seen_at = clock_timestamp()
WHERE kept.seen_at < clock_timestamp() - interval '1 minute'

-- name: announce
-- Used for estimates and to explain why a job waits.
SELECT fleet_announce(:fleet_id, :wanted, to_timestamp(:next_worker_at::float8))

-- name: record_decision
INSERT INTO scaling_decisions (
    fleet_id, cause, reason, wanted, on_demand, serving, coming, queued_jobs, queued_seconds, drained, undrained, ended)
VALUES (:fleet_id, :cause, :reason, :wanted, :on_demand, :serving, :coming, :queued_jobs, :queued_seconds,
    :drained::text[], :undrained::text[], :ended::text[])

-- name: keep_failure
-- driver_failing_since keeps its value until the driver works. Returns the number of failures in a row.
UPDATE fleet_scaling SET driver_error = :error, driver_failures = driver_failures + 1,
    driver_failing_since = coalesce(driver_failing_since, clock_timestamp())
WHERE fleet_id = :fleet_id RETURNING driver_failures

-- name: keep_success
UPDATE fleet_scaling SET driver_error = NULL, driver_failing_since = NULL, driver_failures = 0
WHERE fleet_id = :fleet_id AND driver_error IS NOT NULL

-- name: keep_pause
UPDATE fleet_scaling SET cause = 'paused', reason = :reason, checked_at = clock_timestamp()
WHERE fleet_id = :fleet_id AND updated_at = :updated_at

-- name: forget_old_decisions
DELETE FROM scaling_decisions
WHERE id = ANY (ARRAY (
    SELECT id FROM (SELECT id, at FROM scaling_decisions ORDER BY id LIMIT 1000) oldest
    WHERE at < clock_timestamp() - make_interval(days => :days::integer)
))

-- name: get_scaling
SELECT s.fleet_id, f.slug AS fleet_slug, f.stage, s.driver, s.options, s.providers, s.minimum, s.maximum,
    s.target_seconds, s.warm_up_seconds, s.scale_out_cooldown_seconds, s.scale_in_cooldown_seconds, s.idle_seconds,
    s.on_demand_minimum, s.spot_share, s.updated_by, s.updated_at, s.wanted, s.serving AS actual, s.coming, s.draining,
    s.existing, s.queued_jobs, s.queued_seconds, s.cause, s.reason, s.checked_at, s.driver_error, s.driver_failing_since
FROM fleet_scaling s JOIN gpu_fleets f ON f.id = s.fleet_id
WHERE s.fleet_id = :fleet_id

-- name: lock_fleet
SELECT id FROM gpu_fleets WHERE id = :fleet_id FOR NO KEY UPDATE

-- name: save_scaling
-- Keeps the autoscaler's memory, unless the driver or its options change: the workers are then different ones.
INSERT INTO fleet_scaling AS known (
    fleet_id, driver, options, providers, minimum, maximum, target_seconds, warm_up_seconds, scale_out_cooldown_seconds,
    scale_in_cooldown_seconds, idle_seconds, on_demand_minimum, spot_share, installation_id, central_system,
    central_database, updated_by)
VALUES (:fleet_id, :driver, :options, :providers, :minimum, :maximum, :target_seconds, :warm_up_seconds,
    :scale_out_cooldown_seconds, :scale_in_cooldown_seconds, :idle_seconds, :on_demand_minimum, :spot_share,
    :installation_id, :central_system, :central_database, :updated_by)
ON CONFLICT (fleet_id) DO UPDATE SET
    driver = excluded.driver, options = excluded.options, providers = excluded.providers, minimum = excluded.minimum,
    maximum = excluded.maximum, target_seconds = excluded.target_seconds, warm_up_seconds = excluded.warm_up_seconds,
    scale_out_cooldown_seconds = excluded.scale_out_cooldown_seconds,
    scale_in_cooldown_seconds = excluded.scale_in_cooldown_seconds, idle_seconds = excluded.idle_seconds,
    on_demand_minimum = excluded.on_demand_minimum, spot_share = excluded.spot_share,
    installation_id = excluded.installation_id, central_system = excluded.central_system,
    central_database = excluded.central_database, updated_by = excluded.updated_by, updated_at = clock_timestamp(),
    memory = CASE WHEN known.driver = excluded.driver AND known.options = excluded.options
        THEN known.memory ELSE '{}' END,
    driver_error = NULL, driver_failing_since = NULL, driver_failures = 0

-- name: remove_scaling
DELETE FROM fleet_scaling WHERE fleet_id = :fleet_id RETURNING fleet_id

-- name: workers_of_fleet
SELECT ARRAY (SELECT worker_id FROM comfyui_workers WHERE fleet_id = :fleet_id ORDER BY worker_id)

-- name: list_decisions
SELECT id, fleet_id, at, cause, reason, wanted, on_demand, serving, coming, queued_jobs, queued_seconds, drained,
    undrained, ended
FROM scaling_decisions
WHERE (fleet_id, id) < (:fleet_id, coalesce(:before, 9223372036854775807)) AND fleet_id >= :fleet_id
ORDER BY fleet_id DESC, id DESC LIMIT :limit
