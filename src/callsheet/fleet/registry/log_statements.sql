-- database: central
-- owns: worker_audit_logs, worker_sessions, workflow_timings
-- The workers' log and their sessions.

-- part: after_updated_sessions
(SELECT count(*) FROM updated_sessions) >= 0

-- part: after_updated_effects
(SELECT count(*) FROM updated_effects) >= 0

-- name: record_events
-- Writes lines of the log; for ended leases also the session's sums, the effect's last time and the workflow's average.
-- Rows are locked table by table and in key order, because several control planes do this at once: sessions first,
-- then effects, then workflows.
WITH log_entries AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(:entries::jsonb) AS e (
        place integer, worker_id text, session_id bigint, event text, actor text, dispatch_id bigint, details jsonb,
        outcome text, busy_seconds double precision, effect_id uuid, workflow_id bigint, run_seconds double precision)
), new_log_lines AS (
    INSERT INTO worker_audit_logs (worker_id, session_id, event, actor, dispatch_id, details)
    SELECT worker_id, session_id, event, actor, dispatch_id, details FROM log_entries ORDER BY place
), session_totals AS MATERIALIZED (
    SELECT session_id, sum(busy_seconds) AS busy_seconds,
        count(*) FILTER (WHERE outcome = 'completed') AS completed,
        count(*) FILTER (WHERE outcome = 'failed') AS failed,
        count(*) FILTER (WHERE outcome = 'requeued') AS requeued
    FROM log_entries
    WHERE outcome IS NOT NULL AND session_id IS NOT NULL
    GROUP BY session_id
), locked_sessions AS MATERIALIZED (
    SELECT id
    FROM worker_sessions
    WHERE id = ANY (ARRAY (SELECT session_id FROM session_totals))
    ORDER BY id FOR NO KEY UPDATE
), updated_sessions AS (
    UPDATE worker_sessions s SET
        busy_seconds = s.busy_seconds + session_totals.busy_seconds,
        jobs_completed = s.jobs_completed + session_totals.completed,
        jobs_failed = s.jobs_failed + session_totals.failed,
        jobs_requeued = s.jobs_requeued + session_totals.requeued
    FROM session_totals
    WHERE s.id = ANY (ARRAY (SELECT id FROM locked_sessions)) AND s.id = session_totals.session_id
    RETURNING s.id
), effect_times AS MATERIALIZED (
    SELECT DISTINCT ON (effect_id) effect_id, run_seconds FROM log_entries
    WHERE outcome = 'completed' AND effect_id IS NOT NULL AND run_seconds IS NOT NULL
    ORDER BY effect_id, place DESC
), updated_effects AS MATERIALIZED (
    SELECT effect_took(effect_id, run_seconds) FROM effect_times WHERE {after_updated_sessions}
)
-- The mean of the first ten runs; then each run weighs a tenth, so the average adapts to a faster machine in some jobs.
INSERT INTO workflow_timings AS timing (workflow_id, average_seconds, samples)
SELECT workflow_id, avg(run_seconds), count(*) FROM log_entries
WHERE {after_updated_effects} AND outcome = 'completed' AND run_seconds IS NOT NULL
GROUP BY workflow_id ORDER BY workflow_id
ON CONFLICT (workflow_id) DO UPDATE SET
    average_seconds = timing.average_seconds + (excluded.average_seconds - timing.average_seconds) * greatest(
        excluded.samples::float8 / (timing.samples + excluded.samples), 1 - power(0.9, excluded.samples::float8)),
    samples = timing.samples + excluded.samples,
    updated_at = clock_timestamp()

-- name: begin_session
INSERT INTO worker_sessions (worker_id, fleet_slug, stage, capacity_type, instance_type)
VALUES (:worker_id, :fleet_slug, :stage, :capacity_type, :instance_type)
RETURNING id

-- name: end_session
UPDATE worker_sessions SET ended_at = clock_timestamp(), end_reason = :reason
WHERE worker_id = :worker_id AND ended_at IS NULL

-- name: session_of_lease
-- The open session of a worker, if it had started when the lease did.
SELECT id FROM worker_sessions
WHERE worker_id = :worker_id AND ended_at IS NULL
  AND started_at <= clock_timestamp() - make_interval(secs => :held_seconds::float8)

-- name: last_session_of_worker
SELECT max(id) FROM worker_sessions WHERE worker_id = :worker_id

-- name: sessions_of_workers
SELECT worker_id, session_id FROM comfyui_workers WHERE worker_id = ANY (:worker_ids::text[])

-- name: list_events
SELECT id, at, worker_id, session_id, event, actor,
    (SELECT u.email FROM users u WHERE u.id = user_of_actor(actor)) AS actor_email, dispatch_id, details
FROM worker_audit_logs
WHERE id < coalesce(:before, 9223372036854775807) ORDER BY id DESC LIMIT :limit

-- name: events_of_worker
SELECT id, at, worker_id, session_id, event, actor,
    (SELECT u.email FROM users u WHERE u.id = user_of_actor(actor)) AS actor_email, dispatch_id, details
FROM worker_audit_logs
WHERE (worker_id, id) < (:worker_id, coalesce(:before, 9223372036854775807)) AND worker_id >= :worker_id
ORDER BY worker_id DESC, id DESC LIMIT :limit

-- name: list_sessions
-- Newest first. Without a cursor, the largest bigint is in its place.
SELECT id, worker_id, fleet_slug, stage, capacity_type, instance_type, started_at, ended_at, end_reason, busy_seconds,
    jobs_completed, jobs_failed, jobs_requeued
FROM worker_sessions
WHERE id < coalesce(:before, 9223372036854775807) ORDER BY id DESC LIMIT :limit

-- name: sessions_of_worker
-- Compares and orders by pairs, so that only the index on both columns fits.
SELECT id, worker_id, fleet_slug, stage, capacity_type, instance_type, started_at, ended_at, end_reason, busy_seconds,
    jobs_completed, jobs_failed, jobs_requeued
FROM worker_sessions
WHERE (worker_id, id) < (:worker_id, coalesce(:before, 9223372036854775807)) AND worker_id >= :worker_id
ORDER BY worker_id DESC, id DESC LIMIT :limit

-- name: delete_old_events
-- Oldest first, by the key, which follows the order of time.
DELETE FROM worker_audit_logs
WHERE id = ANY (ARRAY (
    SELECT id FROM (SELECT id, at FROM worker_audit_logs ORDER BY id LIMIT :limit) oldest
    WHERE at < clock_timestamp() - make_interval(days => :days::integer)
))

-- name: delete_old_sessions
DELETE FROM worker_sessions
WHERE id = ANY (ARRAY (
    SELECT id FROM worker_sessions
    WHERE ended_at < (SELECT clock_timestamp() - make_interval(days => :days::integer))
    ORDER BY ended_at LIMIT :limit
))
