-- database: pool
-- owns: webhook_endpoints, webhook_deliveries

-- part: endpoint_columns
id, url, events, scope, description, effect_ids, client_references, low_balance, is_enabled AS enabled, created_at,
failures, failing_since, last_error, disabled_at, disabled_reason

-- part: is_visible
-- Endpoints of a tenant belong to all its administrators.
tenant_id = :tenant_id AND (user_id = :user_id OR (scope = 'tenant' AND :sees_tenant::boolean))

-- name: lock_owner
-- Run before count_endpoints, so that concurrent requests of a tenant are counted one after the other.
SELECT FROM pool_tenants WHERE tenant_id = :tenant_id FOR NO KEY UPDATE

-- name: count_endpoints
SELECT count(*) FILTER (WHERE user_id = :user_id) AS of_user, count(*) AS of_tenant FROM webhook_endpoints
WHERE tenant_id = :tenant_id

-- name: create_endpoint
INSERT INTO webhook_endpoints (tenant_id, id, user_id, scope, url, description, events, effect_ids, client_references,
    low_balance, sealed_secret, sealed_with)
VALUES (:tenant_id, :id, :user_id, :scope, :url, :description, :events, :effect_ids, :client_references,
    :low_balance, :sealed_secret, :sealed_with)
RETURNING {endpoint_columns}

-- name: list_endpoints
SELECT {endpoint_columns} FROM webhook_endpoints
WHERE {is_visible} AND id < coalesce(:before, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
ORDER BY id DESC LIMIT :limit

-- name: get_endpoint
SELECT {endpoint_columns} FROM webhook_endpoints WHERE {is_visible} AND id = :id

-- name: change_endpoint
-- NULL leaves a value as it is. To enable it also ends the state in which it was disabled.
UPDATE webhook_endpoints SET url = coalesce(:url, url), description = coalesce(:description, description),
    events = coalesce(:events::text[], events), effect_ids = coalesce(:effect_ids::uuid[], effect_ids),
    client_references = coalesce(:client_references::text[], client_references),
    low_balance = coalesce(:low_balance, low_balance),
    is_enabled = coalesce(:enabled, is_enabled),
    failures = CASE WHEN :enabled THEN 0 ELSE failures END,
    failing_since = CASE WHEN :enabled THEN NULL ELSE failing_since END,
    paused_until = CASE WHEN :enabled THEN NULL ELSE paused_until END,
    disabled_at = CASE WHEN :enabled THEN NULL ELSE disabled_at END,
    disabled_reason = CASE WHEN :enabled THEN NULL ELSE disabled_reason END,
    is_full = is_full AND NOT coalesce(:enabled, false),
    mail_due_at = CASE WHEN :enabled THEN NULL ELSE mail_due_at END,
    enabled_at = CASE WHEN :enabled THEN clock_timestamp() ELSE enabled_at END
WHERE {is_visible} AND id = :id
RETURNING {endpoint_columns}

-- name: delete_endpoint
-- Its log is deleted by its age.
WITH deleted_endpoint AS (
    DELETE FROM webhook_endpoints WHERE {is_visible} AND id = :id RETURNING id
), deleted_delivery AS (
    DELETE FROM webhook_deliveries d USING deleted_endpoint e WHERE d.endpoint_id = e.id AND d.status = 'waiting'
)
SELECT id FROM deleted_endpoint

-- name: rotate_secret
UPDATE webhook_endpoints SET sealed_old_secret = sealed_secret, sealed_secret = :sealed_secret,
    sealed_with = :sealed_with,
    old_secret_until = clock_timestamp() + make_interval(secs => :seconds::double precision)
WHERE {is_visible} AND id = :id
RETURNING old_secret_until

-- name: write_test
INSERT INTO webhook_deliveries (tenant_id, endpoint_id, event, body)
SELECT tenant_id, id, :event,
    jsonb_build_object('type', :event::text, 'timestamp', time_of_event(clock_timestamp()), 'data', :data::jsonb)
FROM webhook_endpoints
WHERE {is_visible} AND id = :id
RETURNING number

-- name: end_pause
-- A person who sends an event now has repaired the endpoint, or wants to know.
UPDATE webhook_endpoints SET paused_until = NULL
WHERE tenant_id = :tenant_id AND id = :id AND paused_until IS NOT NULL

-- part: delivery_columns
number AS id, event, subject_id, url, status, created_at, attempts, attempted_at,
CASE WHEN status = 'waiting' THEN due_at END AS next_attempt_at, ended_at, body, response_status, response_text, error,
milliseconds

-- name: list_deliveries
SELECT {delivery_columns} FROM webhook_deliveries
WHERE endpoint_id = :endpoint_id AND tenant_id = :tenant_id AND number < coalesce(:before, 9223372036854775807)
  AND (:status::text IS NULL OR status = :status)
ORDER BY number DESC LIMIT :limit

-- part: sent_again
UPDATE webhook_deliveries d SET status = 'waiting', ended_at = NULL, attempts = 0, queued_at = clock_timestamp(),
    due_at = clock_timestamp()

-- name: redeliver
{sent_again}
WHERE number = :number AND endpoint_id = :endpoint_id AND tenant_id = :tenant_id
RETURNING {delivery_columns}

-- name: replay
-- At most :limit events, the oldest first. Returns the time of the first one that is left.
WITH chosen_delivery AS MATERIALIZED (
    SELECT number, created_at FROM webhook_deliveries
    WHERE endpoint_id = :endpoint_id AND tenant_id = :tenant_id AND created_at >= :since
      AND created_at < coalesce(:until, clock_timestamp()) AND status <> 'waiting'
      AND (status = 'given_up' OR NOT :only_failed::boolean)
    ORDER BY created_at, number LIMIT :limit + 1
), replayed_delivery AS (
    {sent_again}
    FROM (SELECT number FROM chosen_delivery ORDER BY created_at, number LIMIT :limit) chosen
    WHERE d.number = chosen.number
    RETURNING d.number
)
SELECT (SELECT count(*) FROM replayed_delivery) AS deliveries,
    (SELECT created_at FROM chosen_delivery ORDER BY created_at, number OFFSET :limit LIMIT 1) AS next_since
