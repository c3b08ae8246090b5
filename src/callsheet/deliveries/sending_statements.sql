-- database: pool

-- name: tenants_with_endpoints
SELECT DISTINCT tenant_id FROM webhook_endpoints LIMIT :limit

-- name: due_endpoints
-- Endpoints with events to send now, the one that waits longest first. It jumps from endpoint to endpoint in the index
-- of waiting deliveries, so its cost is that of the endpoints with events, not of the events.
WITH RECURSIVE waiting AS (
    (SELECT endpoint_id, tenant_id, due_at FROM webhook_deliveries
    WHERE status = 'waiting' ORDER BY endpoint_id, due_at LIMIT 1)
    UNION ALL
    SELECT next.endpoint_id, next.tenant_id, next.due_at FROM waiting CROSS JOIN LATERAL (
        SELECT d.endpoint_id, d.tenant_id, d.due_at FROM webhook_deliveries d
        WHERE d.status = 'waiting' AND d.endpoint_id > waiting.endpoint_id ORDER BY d.endpoint_id, d.due_at LIMIT 1
    ) next
)
SELECT e.tenant_id, e.id
FROM waiting JOIN webhook_endpoints e ON e.tenant_id = waiting.tenant_id AND e.id = waiting.endpoint_id
WHERE waiting.due_at <= clock_timestamp() AND e.is_enabled AND e.disabled_at IS NULL
  AND (e.paused_until IS NULL OR e.paused_until <= clock_timestamp())
ORDER BY waiting.due_at LIMIT :limit

-- name: claim
-- Sets the time of the next attempt before the request: no other process sends the event meanwhile, and after a crash
-- it is sent again. An event waits for the earlier ones of its subject. An endpoint that fails gets one request at a
-- time.
WITH endpoint AS MATERIALIZED (
    SELECT e.id, e.url, e.failures, e.sealed_secret,
        CASE WHEN e.old_secret_until > clock_timestamp() THEN e.sealed_old_secret END AS sealed_old_secret,
        CASE WHEN e.failures > 0 THEN 1 ELSE :limit END AS batch
    FROM unnest(:tenant_ids::uuid[], :endpoint_ids::uuid[]) AS wanted (tenant_id, id)
    JOIN webhook_endpoints e ON e.tenant_id = wanted.tenant_id AND e.id = wanted.id
    WHERE e.is_enabled AND e.disabled_at IS NULL AND (e.paused_until IS NULL OR e.paused_until <= clock_timestamp())
    ORDER BY e.id
), chosen_delivery AS MATERIALIZED (
    SELECT due.number, endpoint.id AS endpoint_id FROM endpoint CROSS JOIN LATERAL (
        SELECT d.number FROM webhook_deliveries d
        WHERE d.endpoint_id = endpoint.id AND d.status = 'waiting'
          AND d.due_at <= clock_timestamp() AND NOT EXISTS (
              SELECT FROM webhook_deliveries earlier
              WHERE earlier.endpoint_id = endpoint.id AND earlier.subject_id = d.subject_id
                AND earlier.number < d.number AND earlier.status = 'waiting')
        ORDER BY d.due_at, d.number LIMIT endpoint.batch
        FOR NO KEY UPDATE SKIP LOCKED
    ) due
)
UPDATE webhook_deliveries d SET attempts = d.attempts + 1, attempted_at = clock_timestamp(),
    due_at = clock_timestamp() + make_interval(secs => :lease_seconds::double precision)
FROM chosen_delivery JOIN endpoint ON endpoint.id = chosen_delivery.endpoint_id
WHERE d.number = chosen_delivery.number
RETURNING endpoint.id AS endpoint_id, endpoint.failures, d.number, d.attempts, d.body::text,
    coalesce(d.url, endpoint.url) AS url, endpoint.sealed_secret, endpoint.sealed_old_secret

-- name: record
-- What became of requests. An event that was not accepted is tried again after a delay that doubles,
-- and the later events of its subject wait for it. Only the claim that is the last one counts.
WITH sent_delivery AS MATERIALIZED (
    SELECT number, attempts, is_accepted, response_status, response_text, error, milliseconds
    FROM jsonb_to_recordset(:results::jsonb) AS r (number bigint, attempts integer, is_accepted boolean,
        response_status integer, response_text text, error text, milliseconds integer)
    ORDER BY number
)
UPDATE webhook_deliveries d SET status = CASE WHEN r.is_accepted THEN 'delivered' ELSE 'waiting' END,
    ended_at = CASE WHEN r.is_accepted THEN clock_timestamp() END,
    due_at = CASE WHEN r.is_accepted THEN d.due_at ELSE clock_timestamp() + make_interval(secs =>
        least(3600, 5 * power(2, least(r.attempts, 20) - 1)) * (0.9 + 0.2 * random())) END,
    response_status = r.response_status, response_text = r.response_text, error = r.error,
    milliseconds = r.milliseconds
FROM sent_delivery r
WHERE d.number = r.number AND d.attempts = r.attempts AND d.status = 'waiting'

-- name: endpoint_works
UPDATE webhook_endpoints SET failures = 0, failing_since = NULL, last_error = NULL, paused_until = NULL
WHERE tenant_id = :tenant_id AND id = :endpoint_id AND failures > 0

-- name: endpoint_fails
-- After three failures in a row it is paused, for up to five minutes. It is disabled if it has failed for too long, or
-- says that it is gone.
UPDATE webhook_endpoints SET failures = failures + 1, failing_since = coalesce(failing_since, clock_timestamp()),
    last_error = :error,
    paused_until = CASE WHEN failures >= 2
        THEN clock_timestamp() + make_interval(secs => least(300, 5 * power(2, least(failures, 20) - 2))) END,
    disabled_at = CASE WHEN :is_gone::boolean
          OR failing_since < clock_timestamp() - make_interval(secs => :disable_seconds::double precision)
        THEN clock_timestamp() END,
    disabled_reason = CASE WHEN :is_gone::boolean THEN 'The endpoint returned 410 (gone).'
        WHEN failing_since < clock_timestamp() - make_interval(secs => :disable_seconds::double precision)
        THEN 'No request was accepted since ' || to_char(timezone('UTC', failing_since), 'YYYY-MM-DD HH24:MI')
            || ' UTC. The last error: ' || :error END,
    mail_due_at = CASE WHEN :is_gone::boolean
          OR failing_since < clock_timestamp() - make_interval(secs => :disable_seconds::double precision)
        THEN clock_timestamp() END
WHERE tenant_id = :tenant_id AND id = :endpoint_id AND disabled_at IS NULL
RETURNING disabled_reason

-- name: give_up
UPDATE webhook_deliveries SET status = 'given_up', ended_at = clock_timestamp()
WHERE number = ANY (ARRAY (
    SELECT number FROM webhook_deliveries
    WHERE status = 'waiting'
      AND queued_at < (SELECT clock_timestamp() - make_interval(secs => :seconds::double precision))
    ORDER BY queued_at LIMIT :limit FOR NO KEY UPDATE SKIP LOCKED
))

-- name: fill_endpoints
-- An endpoint for which too many events wait is disabled, and no more events are written for it. An hour after it was
-- enabled, half of what may wait then must have been sent.
WITH waiting AS MATERIALIZED (
    SELECT e.tenant_id, e.id, found.deliveries, found.bytes,
        CASE WHEN e.enabled_at > clock_timestamp() - interval '1 hour' THEN 2 ELSE 1 END AS times
    FROM webhook_endpoints e CROSS JOIN LATERAL (
        SELECT count(*) AS deliveries, sum(size) AS bytes FROM (
            SELECT pg_column_size(body) AS size FROM webhook_deliveries
            WHERE endpoint_id = e.id AND status = 'waiting' LIMIT 2 * :max_deliveries::bigint + 1
        ) delivery
    ) found
    WHERE NOT e.is_full
)
UPDATE webhook_endpoints e SET is_full = true, disabled_at = clock_timestamp(), mail_due_at = clock_timestamp(),
    disabled_reason = waiting.deliveries || ' events wait for it, and more are not written since '
        || to_char(timezone('UTC', clock_timestamp()), 'YYYY-MM-DD HH24:MI') || ' UTC.'
        || coalesce(' The last error: ' || e.last_error, '')
FROM waiting
WHERE e.tenant_id = waiting.tenant_id AND e.id = waiting.id AND NOT e.is_full
  AND (waiting.deliveries > :max_deliveries::bigint * waiting.times
      OR waiting.bytes > :max_bytes::bigint * waiting.times)
RETURNING e.id, e.disabled_reason

-- name: due_mails
-- The mail is due again after ten minutes, unless it was sent.
UPDATE webhook_endpoints SET mail_due_at = clock_timestamp() + interval '10 minutes'
WHERE (tenant_id, id) IN (
    SELECT tenant_id, id FROM webhook_endpoints
    WHERE mail_due_at <= (SELECT clock_timestamp()) ORDER BY mail_due_at LIMIT :limit FOR NO KEY UPDATE SKIP LOCKED
)
RETURNING tenant_id, id, user_id, url, description, disabled_at, disabled_reason, mail_due_at

-- name: mail_was_sent
-- Not if it was disabled again meanwhile, for another reason.
UPDATE webhook_endpoints SET mail_due_at = NULL
WHERE tenant_id = :tenant_id AND id = :id AND mail_due_at = :mail_due_at

-- name: delete_beyond
-- The log of an endpoint keeps its newest deliveries.
DELETE FROM webhook_deliveries
WHERE number = ANY (ARRAY (
    SELECT old.number FROM webhook_endpoints e
    CROSS JOIN LATERAL (
        SELECT number FROM webhook_deliveries
        WHERE endpoint_id = e.id
        ORDER BY number DESC OFFSET :kept::bigint LIMIT 1
    ) boundary
    CROSS JOIN LATERAL (
        SELECT number FROM webhook_deliveries
        WHERE endpoint_id = e.id AND number <= boundary.number AND status <> 'waiting'
        ORDER BY number LIMIT :limit
    ) old
    LIMIT :limit
))

-- name: delete_old
DELETE FROM webhook_deliveries
WHERE number = ANY (ARRAY (
    SELECT number FROM webhook_deliveries
    WHERE created_at < (SELECT clock_timestamp() - make_interval(secs => :seconds::double precision))
      AND status <> 'waiting'
    ORDER BY created_at LIMIT :limit
))

-- name: sealed_with_another_key
SELECT tenant_id, id, sealed_secret, sealed_old_secret FROM webhook_endpoints
WHERE sealed_with <> :sealed_with ORDER BY tenant_id, id LIMIT :limit

-- name: sealed_with
SELECT count(*) FROM webhook_endpoints WHERE sealed_with = :key

-- name: reseal
UPDATE webhook_endpoints SET sealed_secret = :sealed_secret, sealed_old_secret = :sealed_old_secret,
    old_secret_until = CASE WHEN :sealed_old_secret::bytea IS NULL THEN NULL ELSE old_secret_until END,
    sealed_with = :sealed_with
WHERE tenant_id = :tenant_id AND id = :id AND sealed_secret = :before

-- name: disabled_endpoints
-- Endpoints that were disabled in the last week.
SELECT tenant_id, id, url, disabled_reason FROM webhook_endpoints
WHERE disabled_at > (SELECT clock_timestamp() - interval '7 days') ORDER BY disabled_at DESC LIMIT :limit
