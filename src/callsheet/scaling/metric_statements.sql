-- database: central

-- name: fleet_metric
-- Jobs that wait for a fleet and could be leased now, of :providers and of its workers' providers. They are counted
-- lane by lane from low_water, up to :max_rows per lane, so the whole queue is never read. Jobs of an identifier
-- at its limit are not counted: another worker would not take them.
WITH fleet AS MATERIALIZED (
    SELECT id, slug, stage FROM gpu_fleets WHERE id = :fleet_id
), worker AS MATERIALIZED (
    SELECT w.worker_id, w.max_concurrency, w.providers FROM comfyui_workers w JOIN fleet ON w.fleet_id = fleet.id
    WHERE w.is_approved AND w.revoked_at IS NULL
), lane AS MATERIALIZED (
    SELECT l.lane_id, l.workflow_id, l.concurrency_identifier, l.low_water
    FROM fleet JOIN workflow_fleets wf ON wf.fleet_id = fleet.id
    JOIN workflows k ON k.id = wf.workflow_id AND k.is_active
    JOIN dispatch_lanes l ON l.workflow_id = k.id AND l.stage = fleet.stage AND l.has_work
    WHERE l.provider = ANY (:providers::text[]) OR EXISTS (SELECT FROM worker WHERE l.provider = ANY (worker.providers))
), held_jobs AS MATERIALIZED (
    SELECT worker.max_concurrency, (
        SELECT count(*) FROM ai_job_dispatches d WHERE d.worker_id = worker.worker_id AND d.status = 'leased') AS jobs
    FROM worker
), waiting_jobs AS MATERIALIZED (
    SELECT counted.jobs, counted.jobs * coalesce(
        (SELECT t.average_seconds FROM workflow_timings t WHERE t.workflow_id = lane.workflow_id),
        :unmeasured::float8) AS seconds
    FROM lane CROSS JOIN LATERAL (
        SELECT count(*) AS jobs FROM (
            SELECT FROM ai_job_dispatches d
            WHERE (d.lane_id, d.dispatch_id) >= (lane.lane_id, lane.low_water) AND d.lane_id <= lane.lane_id
              AND d.status = 'queued' AND d.not_before IS NULL
            ORDER BY d.lane_id, d.dispatch_id LIMIT :max_rows::bigint
        ) first
    ) counted
    WHERE lane.concurrency_identifier = '' OR coalesce(
        (SELECT c.max_concurrent FROM concurrency_limits c WHERE c.identifier = lane.concurrency_identifier)
        > (SELECT count(*) FROM ai_job_dispatches d
           WHERE d.concurrency_identifier = lane.concurrency_identifier AND d.concurrency_identifier <> ''
             AND d.status <> 'queued'), true)
)
SELECT fleet.slug, fleet.stage,
    (SELECT coalesce(sum(jobs), 0) FROM waiting_jobs)::integer AS queued_jobs,
    (SELECT coalesce(sum(seconds), 0) FROM waiting_jobs)::float8 AS queued_seconds,
    (SELECT coalesce(sum(jobs), 0) FROM held_jobs)::integer AS running_jobs,
    (SELECT coalesce(sum(least(jobs, max_concurrency)), 0) FROM held_jobs)::integer AS busy_slots,
    (SELECT coalesce(avg(max_concurrency), 1) FROM worker)::float8 AS slots
FROM fleet
