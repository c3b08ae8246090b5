-- database: central
-- owns: calls_by_provider, calls_by_provider_progress

-- name: try_lock
SELECT pg_try_advisory_xact_lock(hashtextextended('calls by provider', 0)) AS is_held

-- name: read_progress
SELECT clock_timestamp() AS now, (SELECT counted_until FROM calls_by_provider_progress) AS counted_until,
    (SELECT min(finished_at) FROM (
        SELECT finished_at FROM dispatch_history ORDER BY dispatch_id LIMIT 1) first) AS first_end

-- name: write_progress
INSERT INTO calls_by_provider_progress (counted_until) VALUES (:counted_until)
ON CONFLICT (only_row) DO UPDATE SET counted_until = excluded.counted_until

-- name: count_steps
-- Counts from :since, which starts a step, to :until.
INSERT INTO calls_by_provider (at, provider, calls, completed, failed)
SELECT date_bin(make_interval(secs => :step_seconds::integer), finished_at, 'epoch'::timestamptz), provider,
    sum(attempts), count(*) FILTER (WHERE status = 'completed'),
    count(*) FILTER (WHERE status IN ('failed', 'expired'))
FROM dispatch_history
WHERE finished_at >= :since AND finished_at < :until
GROUP BY 1, 2
ON CONFLICT (at, provider) DO UPDATE SET
    calls = excluded.calls, completed = excluded.completed, failed = excluded.failed

-- name: delete_old_steps
DELETE FROM calls_by_provider WHERE at < :before

-- name: read_calls
-- The calls of the last :days days, and of the last day.
SELECT provider, sum(calls)::bigint AS calls, sum(completed)::bigint AS completed, sum(failed)::bigint AS failed,
    coalesce(sum(calls) FILTER (WHERE is_of_day), 0)::bigint AS day_calls,
    coalesce(sum(completed) FILTER (WHERE is_of_day), 0)::bigint AS day_completed,
    coalesce(sum(failed) FILTER (WHERE is_of_day), 0)::bigint AS day_failed
FROM (
    SELECT provider, calls, completed, failed, at > clock_timestamp() - interval '1 day' AS is_of_day
    FROM calls_by_provider
    WHERE at > (SELECT clock_timestamp() - make_interval(days => :days::integer))
) counted
GROUP BY provider
