-- database: central
-- owns: finished_jobs_by_time, queue_samples, fleet_samples, statistics_progress, worker_hours

-- name: try_lock
-- One process at a time counts. A process that does not get the lock has nothing to do.
SELECT pg_try_advisory_xact_lock(hashtextextended('statistics', 0)) AS is_held

-- name: read_progress
SELECT clock_timestamp() AS now, (SELECT counted_until FROM statistics_progress) AS counted_until,
    (SELECT date_trunc('hour', min(finished_at)) FROM (
        SELECT finished_at FROM dispatch_history ORDER BY dispatch_id LIMIT 1) first) AS first_end

-- name: write_progress
INSERT INTO statistics_progress (counted_until) VALUES (:counted_until)
ON CONFLICT (only_row) DO UPDATE SET counted_until = excluded.counted_until

-- name: count_minutes
-- Counts the minutes from :since to :until from the history, per workflow and for all workflows (id 0).
INSERT INTO finished_jobs_by_time (step_seconds, at, workflow_id, completed, failed, canceled, expired, waits, runs)
SELECT 60, date_trunc('minute', finished_at), coalesce(workflow_id, 0),
    count(*) FILTER (WHERE status = 'completed'), count(*) FILTER (WHERE status = 'failed'),
    count(*) FILTER (WHERE status = 'canceled'), count(*) FILTER (WHERE status = 'expired'),
    histogram(array_agg(queue_wait_seconds)),
    histogram(array_agg(duration_seconds) FILTER (WHERE status = 'completed'))
FROM dispatch_history
WHERE finished_at >= :since AND finished_at < :until
GROUP BY GROUPING SETS ((date_trunc('minute', finished_at), workflow_id), (date_trunc('minute', finished_at)))
ON CONFLICT (step_seconds, workflow_id, at) DO UPDATE SET
    completed = excluded.completed, failed = excluded.failed, canceled = excluded.canceled, expired = excluded.expired,
    waits = excluded.waits, runs = excluded.runs

-- name: combine_finished
-- Adds up the shorter steps of each longer one that has a minute from :since to :until. An hour is added up from steps
-- of ten minutes: from its minutes it took 80 ms instead of 4 with 20 workflows, every ten seconds.
WITH shorter_steps AS (
    SELECT date_bin(make_interval(secs => :step_seconds::integer), at, 'epoch'::timestamptz) AS longer_at,
        workflow_id, completed, failed, canceled, expired, waits, runs
    FROM finished_jobs_by_time
    WHERE step_seconds = :shorter_seconds AND at < :until
      AND at >= date_bin(make_interval(secs => :step_seconds::integer), :since::timestamptz, 'epoch'::timestamptz)
), added_histograms AS (
    SELECT longer_at, workflow_id, array_agg(waits ORDER BY place) AS waits, array_agg(runs ORDER BY place) AS runs
    FROM (
        SELECT longer_at, workflow_id, place, sum(wait)::integer AS waits, sum(run)::integer AS runs
        FROM shorter_steps CROSS JOIN unnest(waits, runs) WITH ORDINALITY AS parts (wait, run, place)
        GROUP BY longer_at, workflow_id, place
    ) by_place
    GROUP BY longer_at, workflow_id
), added_counts AS (
    SELECT longer_at, workflow_id, sum(completed) AS completed, sum(failed) AS failed, sum(canceled) AS canceled,
        sum(expired) AS expired
    FROM shorter_steps
    GROUP BY longer_at, workflow_id
)
INSERT INTO finished_jobs_by_time (step_seconds, at, workflow_id, completed, failed, canceled, expired, waits, runs)
SELECT :step_seconds, longer_at, workflow_id, completed, failed, canceled, expired, waits, runs
FROM added_counts JOIN added_histograms USING (longer_at, workflow_id)
ON CONFLICT (step_seconds, workflow_id, at) DO UPDATE SET
    completed = excluded.completed, failed = excluded.failed, canceled = excluded.canceled, expired = excluded.expired,
    waits = excluded.waits, runs = excluded.runs

-- name: sample_queues
-- Queued and running jobs per workflow and of all workflows (id 0) at this moment, as the sample of this minute. Queued
-- jobs are counted up to :max_rows per workflow: a longer queue takes too long to count every minute.
WITH ready_jobs AS (
    SELECT w.id AS workflow_id, counted.jobs
    FROM workflows w CROSS JOIN LATERAL (
        SELECT count(*) AS jobs FROM (
            SELECT FROM dispatch_lanes l JOIN ai_job_dispatches d
                ON d.lane_id = l.lane_id AND d.dispatch_id >= l.low_water
            WHERE l.workflow_id = w.id AND d.status = 'queued' AND d.not_before IS NULL LIMIT :max_rows::bigint
        ) first
    ) counted
), delayed_jobs AS (
    SELECT workflow_id, count(*) AS jobs FROM ai_job_dispatches
    WHERE status = 'queued' AND not_before IS NOT NULL
    GROUP BY workflow_id
), running_jobs AS (
    SELECT workflow_id, count(*) AS running FROM ai_job_dispatches WHERE status <> 'queued' GROUP BY workflow_id
)
INSERT INTO queue_samples (step_seconds, at, workflow_id, queued, running)
SELECT 60, date_trunc('minute', :now::timestamptz), coalesce(ready_jobs.workflow_id, 0),
    sum(ready_jobs.jobs + coalesce(delayed_jobs.jobs, 0)), sum(coalesce(running_jobs.running, 0))
FROM ready_jobs LEFT JOIN delayed_jobs USING (workflow_id) LEFT JOIN running_jobs USING (workflow_id)
-- A workflow without jobs has no sample.
WHERE ready_jobs.jobs > 0 OR delayed_jobs.jobs > 0 OR running_jobs.running > 0
GROUP BY GROUPING SETS ((ready_jobs.workflow_id), ())
HAVING count(*) > 0
ON CONFLICT (step_seconds, workflow_id, at) DO NOTHING

-- name: sample_fleet
-- Workers and tokens at this moment, as the sample of this minute.
INSERT INTO fleet_samples (
    step_seconds, at, busy_workers, idle_workers, draining_workers, slots, busy_slots, tokens_held)
SELECT 60, date_trunc('minute', :now::timestamptz),
    count(*) FILTER (WHERE jobs > 0 AND NOT is_draining), count(*) FILTER (WHERE jobs = 0 AND NOT is_draining),
    count(*) FILTER (WHERE is_draining), coalesce(sum(max_concurrency), 0),
    -- A job that is fetched ahead takes no slot.
    coalesce(sum(least(jobs, max_concurrency)), 0), :tokens_held::double precision
FROM (
    SELECT w.max_concurrency, coalesce(held.jobs, 0) AS jobs,
        EXISTS (SELECT FROM worker_drains r WHERE r.worker_id = w.worker_id) AS is_draining
    FROM comfyui_workers w
    LEFT JOIN (
        SELECT worker_id, count(*) AS jobs FROM ai_job_dispatches WHERE status = 'leased' GROUP BY worker_id
    ) held ON held.worker_id = w.worker_id
    WHERE w.is_approved AND w.revoked_at IS NULL
      AND (w.last_seen_at > clock_timestamp() - make_interval(secs => :alive_seconds) OR held.jobs > 0)
) live
ON CONFLICT (step_seconds, at) DO NOTHING

-- name: sample_workers
-- Adds this minute to the hour of each live worker: the share of its slots that leases took since the last sample, also
-- leases that started and ended in between. Runs once per minute, in the transaction of the sample_fleet that wrote a
-- row. Without an earlier sample of the session, it is the share of the slots that are in use now.
WITH live_workers AS (
    SELECT w.worker_id, w.session_id, greatest(w.max_concurrency, 1) AS slots, s.started_at,
        coalesce(held.jobs, 0) AS jobs, coalesce(s.busy_seconds, 0) + coalesce(held.seconds, 0) AS lease_seconds
    FROM comfyui_workers w
    LEFT JOIN worker_sessions s ON s.id = w.session_id
    LEFT JOIN (
        SELECT worker_id, count(*) AS jobs,
            sum(greatest(0, extract(epoch FROM :now::timestamptz - last_leased_at))) AS seconds
        FROM ai_job_dispatches
        WHERE status = 'leased'
        GROUP BY worker_id
    ) held ON held.worker_id = w.worker_id
    WHERE w.is_approved AND w.revoked_at IS NULL
      AND (w.last_seen_at > clock_timestamp() - make_interval(secs => :alive_seconds) OR held.jobs > 0)
), measured_workers AS (
    SELECT live.worker_id, live.session_id, live.slots, live.jobs, live.lease_seconds,
        CASE WHEN last.session_id = live.session_id THEN last.lease_seconds
            WHEN live.started_at > :now - make_interval(secs => :new_seconds) THEN 0 END AS counted_seconds,
        extract(epoch FROM :now - CASE WHEN last.session_id = live.session_id THEN last.sampled_at
            ELSE live.started_at END) AS elapsed_seconds
    FROM live_workers live LEFT JOIN LATERAL (
        SELECT session_id, sampled_at, lease_seconds FROM worker_hours
        WHERE worker_id = live.worker_id ORDER BY at DESC LIMIT 1
    ) last ON true
)
INSERT INTO worker_hours (worker_id, at, busy_minutes, minutes, sampled_at, session_id, lease_seconds)
SELECT worker_id, date_trunc('hour', :now), CASE
        WHEN counted_seconds IS NULL OR elapsed_seconds <= 0 THEN least(jobs, slots) / slots::double precision
        -- A job that is fetched ahead takes no slot.
        ELSE least(1, greatest(0, lease_seconds - counted_seconds) / (elapsed_seconds * slots)) END,
    -- The sum of the session is written after a lease has ended, so that the sum may be too small for a moment.
    1, :now, session_id, greatest(lease_seconds, counted_seconds)
FROM measured_workers
ON CONFLICT (worker_id, at) DO UPDATE SET
    busy_minutes = worker_hours.busy_minutes + excluded.busy_minutes, minutes = worker_hours.minutes + excluded.minutes,
    sampled_at = excluded.sampled_at, session_id = excluded.session_id, lease_seconds = excluded.lease_seconds

-- name: delete_old_worker_hours
DELETE FROM worker_hours WHERE at < :before

-- name: read_worker_hours
-- The last :hours hours of a worker, oldest first. Hours without a sample are left out.
SELECT at, busy_minutes / minutes AS busy_share, minutes FROM worker_hours
WHERE worker_id = :worker_id AND at > clock_timestamp() - make_interval(hours => :hours::integer)
ORDER BY at

-- name: combine_queues
-- After sample_fleet, which says how many minutes were sampled.
INSERT INTO queue_samples (step_seconds, at, workflow_id, queued, running)
SELECT :step_seconds, longer_at, workflow_id, sum(queued) / max(sampled.minutes), sum(running) / max(sampled.minutes)
FROM queue_samples CROSS JOIN LATERAL (
    SELECT date_bin(make_interval(secs => :step_seconds::integer), at, 'epoch'::timestamptz) AS longer_at
) longer JOIN (
    -- A minute with a sample of the workers and none of the queue had an empty queue.
    SELECT date_bin(make_interval(secs => :step_seconds::integer), at, 'epoch'::timestamptz) AS longer_at,
        count(*) AS minutes
    FROM fleet_samples
    WHERE step_seconds = 60
    GROUP BY 1
) sampled USING (longer_at)
WHERE step_seconds = 60
  AND at >= date_bin(make_interval(secs => :step_seconds::integer), :since::timestamptz, 'epoch'::timestamptz)
GROUP BY longer_at, workflow_id
ON CONFLICT (step_seconds, workflow_id, at) DO UPDATE SET queued = excluded.queued, running = excluded.running

-- name: combine_fleet
INSERT INTO fleet_samples (
    step_seconds, at, busy_workers, idle_workers, draining_workers, slots, busy_slots, tokens_held)
SELECT :step_seconds, date_bin(make_interval(secs => :step_seconds::integer), at, 'epoch'::timestamptz),
    avg(busy_workers), avg(idle_workers), avg(draining_workers), avg(slots), avg(busy_slots), avg(tokens_held)
FROM fleet_samples
WHERE step_seconds = 60
  AND at >= date_bin(make_interval(secs => :step_seconds::integer), :since::timestamptz, 'epoch'::timestamptz)
GROUP BY 2
ON CONFLICT (step_seconds, at) DO UPDATE SET
    busy_workers = excluded.busy_workers, idle_workers = excluded.idle_workers,
    draining_workers = excluded.draining_workers, slots = excluded.slots, busy_slots = excluded.busy_slots,
    tokens_held = excluded.tokens_held

-- name: delete_old_counts
DELETE FROM finished_jobs_by_time
WHERE step_seconds = :step_seconds AND at < :before::timestamptz

-- name: delete_old_queue_samples
DELETE FROM queue_samples
WHERE step_seconds = :step_seconds AND at < :before::timestamptz

-- name: delete_old_fleet_samples
DELETE FROM fleet_samples
WHERE step_seconds = :step_seconds AND at < :before::timestamptz

-- name: read_finished
SELECT at, completed, failed, canceled, expired, waits, runs FROM finished_jobs_by_time
WHERE step_seconds = :step_seconds AND workflow_id = :workflow_id AND at >= :since ORDER BY at

-- name: read_queues
SELECT at, queued, running FROM queue_samples
WHERE step_seconds = :step_seconds AND workflow_id = :workflow_id AND at >= :since ORDER BY at

-- name: read_fleet
SELECT at, busy_workers, idle_workers, draining_workers, slots, busy_slots, tokens_held FROM fleet_samples
WHERE step_seconds = :step_seconds AND at >= :since ORDER BY at

-- name: read_workflows
-- What finished since then, per workflow, with the most jobs first.
SELECT w.slug AS workflow, sum(c.completed)::bigint AS completed, sum(c.failed)::bigint AS failed,
    sum(c.canceled)::bigint AS canceled, sum(c.expired)::bigint AS expired
FROM finished_jobs_by_time c JOIN workflows w ON w.id = c.workflow_id
WHERE c.step_seconds = :step_seconds AND c.at >= :since
GROUP BY w.slug ORDER BY sum(c.completed + c.failed + c.canceled + c.expired) DESC, w.slug LIMIT 100

-- name: find_workflow
SELECT id FROM workflows WHERE slug = :slug

-- name: read_now
SELECT clock_timestamp() AS now
