-- database: central

-- name: gate
-- Whether the provider may be called: null where it may, else how many seconds are left of its pause, 0 when it is over.
SELECT greatest(0, extract(epoch FROM open_until - clock_timestamp()))::float8 AS paused_seconds
FROM provider_breakers WHERE provider = :provider AND open_until IS NOT NULL

-- name: lock_breaker
SELECT provider FROM provider_breakers WHERE provider = :provider FOR UPDATE

-- name: take_trial
-- The one call of a breaker that is half open. After lock_breaker, in a statement of its own: whether the call before is
-- alive must be read after that lock was waited for. A lease of 0 is a call of our own, alive for :trial_seconds.
UPDATE provider_breakers b SET
    trial_dispatch_id = :dispatch_id,
    trial_lease_seq = :lease_seq,
    trial_until = CASE WHEN :lease_seq = 0 THEN clock_timestamp() + make_interval(secs => :trial_seconds::float8) END
WHERE b.provider = :provider AND b.open_until <= clock_timestamp()
  AND ((b.trial_dispatch_id, b.trial_lease_seq) IS NOT DISTINCT FROM (:dispatch_id::bigint, :lease_seq::bigint)
    OR NOT coalesce(b.trial_until > clock_timestamp(), false) AND NOT coalesce((
        SELECT d.lease_seq = b.trial_lease_seq AND d.status = 'leased' FROM ai_job_dispatches d
        WHERE d.dispatch_id = b.trial_dispatch_id), false))
RETURNING b.provider

-- name: count_success
-- Failures count in a row. An open breaker is closed only by the call it let through.
UPDATE provider_breakers b SET
    failures = 0, open_until = NULL, pause_seconds = NULL, trial_dispatch_id = NULL, trial_lease_seq = NULL,
    trial_until = NULL
WHERE b.provider = :provider AND b.failures > 0
  AND (b.open_until IS NULL OR (b.trial_dispatch_id, b.trial_lease_seq) = (:dispatch_id::bigint, :lease_seq::bigint))
RETURNING b.provider

-- name: count_failure
-- Closed: one more, and enough of them open it. Half open: the call it let through opens it again, for twice as long.
-- Calls that began before it opened say nothing new.
INSERT INTO provider_breakers AS b (provider, failures, open_until, pause_seconds, last_error, last_error_at)
VALUES (
    :provider, 1,
    CASE WHEN :most::integer <= 1 THEN clock_timestamp() + make_interval(secs => :pause_seconds::float8) END,
    CASE WHEN :most::integer <= 1 THEN :pause_seconds::float8 END,
    :error, clock_timestamp())
ON CONFLICT (provider) DO UPDATE SET
    failures = b.failures + CASE
        WHEN b.open_until IS NULL
          OR (b.trial_dispatch_id, b.trial_lease_seq) = (:dispatch_id::bigint, :lease_seq::bigint) THEN 1 ELSE 0 END,
    open_until = CASE
        WHEN (b.trial_dispatch_id, b.trial_lease_seq) = (:dispatch_id::bigint, :lease_seq::bigint)
        THEN clock_timestamp() + make_interval(secs => least(b.pause_seconds * 2, :longest_pause_seconds::float8))
        WHEN b.open_until IS NULL AND b.failures + 1 >= :most::integer
        THEN clock_timestamp() + make_interval(secs => :pause_seconds::float8)
        ELSE b.open_until END,
    pause_seconds = CASE
        WHEN (b.trial_dispatch_id, b.trial_lease_seq) = (:dispatch_id::bigint, :lease_seq::bigint)
        THEN least(b.pause_seconds * 2, :longest_pause_seconds::float8)
        WHEN b.open_until IS NULL AND b.failures + 1 >= :most::integer THEN :pause_seconds::float8
        ELSE b.pause_seconds END,
    trial_dispatch_id = CASE
        WHEN (b.trial_dispatch_id, b.trial_lease_seq) = (:dispatch_id::bigint, :lease_seq::bigint) THEN NULL
        ELSE b.trial_dispatch_id END,
    trial_lease_seq = CASE
        WHEN (b.trial_dispatch_id, b.trial_lease_seq) = (:dispatch_id::bigint, :lease_seq::bigint) THEN NULL
        ELSE b.trial_lease_seq END,
    trial_until = CASE
        WHEN (b.trial_dispatch_id, b.trial_lease_seq) = (:dispatch_id::bigint, :lease_seq::bigint) THEN NULL
        ELSE b.trial_until END,
    last_error = excluded.last_error,
    last_error_at = excluded.last_error_at
RETURNING b.open_until IS NOT NULL AS is_open, b.failures

-- name: read_breakers
-- One row per provider that ever failed. Those with a call under way are shut until it is back.
SELECT b.provider, b.failures, b.open_until, b.last_error, b.last_error_at,
    greatest(0, extract(epoch FROM b.open_until - clock_timestamp()))::float8 AS paused_seconds,
    b.open_until <= clock_timestamp() AND (coalesce(b.trial_until > clock_timestamp(), false) OR coalesce((
        SELECT d.lease_seq = b.trial_lease_seq AND d.status = 'leased' FROM ai_job_dispatches d
        WHERE d.dispatch_id = b.trial_dispatch_id), false)) AS is_tried
FROM provider_breakers b WHERE b.provider = ANY (:providers::text[])

-- name: reset_breaker
UPDATE provider_breakers b SET
    failures = 0, open_until = NULL, pause_seconds = NULL, trial_dispatch_id = NULL, trial_lease_seq = NULL,
    trial_until = NULL
WHERE b.provider = :provider
