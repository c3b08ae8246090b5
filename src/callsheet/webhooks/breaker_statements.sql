-- database: central
-- owns: provider_breakers

-- name: paused_seconds
-- NULL if the provider may be called for this tenant. Otherwise the seconds until its pause ends; 0 if it has ended and
-- one call must test the provider.
SELECT greatest(0, extract(epoch FROM open_until - clock_timestamp()))::float8 AS paused_seconds
FROM provider_breakers
WHERE provider = :provider AND open_until IS NOT NULL AND coalesce(shut_for = :tenant_id, true)

-- name: paused_tenant
SELECT shut_for FROM provider_breakers WHERE provider = :provider

-- name: lock_breaker
SELECT provider FROM provider_breakers WHERE provider = :provider FOR UPDATE

-- name: take_trial
-- Makes this call the one that tests the provider of a half-open breaker. Run after lock_breaker, as another statement:
-- only after the wait for the lock is it known whether the previous test still runs. A call with lease_seq 0 is one of
-- the control plane itself, and counts as running for :trial_seconds. The trial is NULL if none was made.
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
-- Only failures in a row count. An open breaker is closed only by the call that tests the provider.
UPDATE provider_breakers b SET
    failures = 0, dispatches = '{}', tenants = '{}', shut_for = NULL, open_until = NULL, pause_seconds = NULL,
    trial_dispatch_id = NULL, trial_lease_seq = NULL, trial_until = NULL
WHERE b.provider = :provider AND b.failures > 0
  AND (b.open_until IS NULL OR (b.trial_dispatch_id, b.trial_lease_seq) = (:dispatch_id::bigint, :lease_seq::bigint))
RETURNING b.provider

-- name: create_breaker
-- Run for every failure; only the first one writes a row.
INSERT INTO provider_breakers (provider) VALUES (:provider) ON CONFLICT (provider) DO NOTHING

-- name: lock_breaker_state
-- Locks the breaker and returns what the rules in breaker_rules.py need.
SELECT failures, dispatches, tenants, pause_seconds, trial_dispatch_id, trial_lease_seq, shut_for,
    (SELECT count(*) > 1 FROM (SELECT FROM tenants WHERE disabled_at IS NULL LIMIT 2) t) AS several_tenants
FROM provider_breakers
WHERE provider = :provider FOR UPDATE

-- name: count_failure
UPDATE provider_breakers b SET
    failures = :failures, dispatches = :dispatches, tenants = :tenants, pause_seconds = :pause_seconds,
    shut_for = :shut_for,
    open_until = CASE WHEN :begins THEN clock_timestamp() + make_interval(secs => :pause_seconds::float8)
        ELSE b.open_until END,
    trial_dispatch_id = CASE WHEN :begins THEN NULL ELSE b.trial_dispatch_id END,
    trial_lease_seq = CASE WHEN :begins THEN NULL ELSE b.trial_lease_seq END,
    trial_until = CASE WHEN :begins THEN NULL ELSE b.trial_until END,
    last_error = :error, last_error_at = clock_timestamp()
WHERE b.provider = :provider

-- name: read_breakers
-- One row per provider that ever failed. is_tried: a call tests the provider now.
SELECT b.provider, b.failures, b.dispatches, b.tenants, b.pause_seconds, b.open_until, b.shut_for, b.last_error,
    b.last_error_at,
    greatest(0, extract(epoch FROM b.open_until - clock_timestamp()))::float8 AS paused_seconds,
    coalesce(b.open_until <= clock_timestamp(), false)
      AND (coalesce(b.trial_until > clock_timestamp(), false) OR coalesce((
        SELECT d.lease_seq = b.trial_lease_seq AND d.status = 'leased' FROM ai_job_dispatches d
        WHERE d.dispatch_id = b.trial_dispatch_id), false)) AS is_tried
FROM provider_breakers b
WHERE b.provider = ANY (:providers::text[])

-- name: reset_breaker
UPDATE provider_breakers b SET
    failures = 0, dispatches = '{}', tenants = '{}', shut_for = NULL, open_until = NULL, pause_seconds = NULL,
    trial_dispatch_id = NULL, trial_lease_seq = NULL, trial_until = NULL
WHERE b.provider = :provider
