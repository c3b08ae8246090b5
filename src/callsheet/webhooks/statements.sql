-- database: central
-- owns: provider_callbacks, provider_calls

-- name: record_intent
-- Run before the provider is called. After the first hand-over the provider may already have the job.
INSERT INTO provider_calls AS c (
    tenant_id, job_id, charge_cycle, dispatch_id, lease_seq, provider, callback_hash, next_at)
VALUES (
    :tenant_id, :job_id, :charge_cycle, :dispatch_id, :lease_seq, :provider, :callback_hash,
    clock_timestamp() + make_interval(secs => :poll_seconds::float8))
ON CONFLICT (tenant_id, job_id, charge_cycle) DO UPDATE SET
    hand_overs = c.hand_overs + 1, lease_seq = excluded.lease_seq
RETURNING c.hand_overs, c.callback_hash

-- name: schedule_first_poll
-- Run when a worker reports that it submitted the job. If the callback came before this report, the call is due at
-- once.
UPDATE provider_calls SET
    next_at = clock_timestamp() + make_interval(secs =>
        CASE WHEN work = 'collect' OR strays <> '{}' THEN 0 ELSE :poll_seconds::float8 END),
    failures = 0
WHERE dispatch_id = :dispatch_id AND work IN ('follow', 'collect')
RETURNING work

-- name: add_stray
-- A prediction that a worker submitted and reported after its lease had ended. A call that has ended is opened again,
-- to cancel the prediction. A repeated report of the prediction that the job waits for is not a stray.
UPDATE provider_calls c SET
    strays = c.strays || :provider_job_id::text,
    work = coalesce(c.work, 'cancel'),
    next_at = CASE WHEN c.work = 'collect' THEN c.next_at ELSE clock_timestamp() END,
    ended_at = NULL
WHERE c.dispatch_id = :dispatch_id AND cardinality(c.strays) < 8
  AND :provider_job_id::text <> ALL (c.strays)
  AND NOT EXISTS (SELECT FROM ai_job_dispatches d
      WHERE d.dispatch_id = c.dispatch_id AND d.provider_job_id = :provider_job_id::text)
  AND NOT EXISTS (SELECT FROM dispatch_history h
      WHERE h.dispatch_id = c.dispatch_id AND h.provider_job_id = :provider_job_id::text)

-- name: forget_strays
UPDATE provider_calls SET strays = ARRAY (SELECT s FROM unnest(strays) s WHERE s <> ALL (:strays::text[]))
WHERE call_id = :call_id

-- name: find_call
SELECT c.call_id, c.tenant_id, c.job_id, c.charge_cycle, c.lease_seq, c.work, c.callback_hash,
    coalesce(d.provider_job_id, h.provider_job_id) AS provider_job_id
FROM provider_calls c
LEFT JOIN ai_job_dispatches d ON d.dispatch_id = c.dispatch_id
LEFT JOIN dispatch_history h ON h.dispatch_id = c.dispatch_id
WHERE c.callback_hash = :callback_hash AND c.provider = :provider

-- name: record_refusal
UPDATE provider_calls SET refused_callbacks = refused_callbacks + 1, last_refusal = :reason WHERE call_id = :call_id

-- name: take_prediction
-- Records the final prediction once; later ones change nothing. A callback has one line per delivery.
WITH locked_call AS MATERIALIZED (
    SELECT call_id, work FROM provider_calls WHERE call_id = :call_id FOR NO KEY UPDATE
), updated_call AS (
    UPDATE provider_calls c SET
        prediction = :prediction, reported_at = clock_timestamp(), work = 'collect', next_at = clock_timestamp(),
        failures = 0
    FROM locked_call l
    WHERE c.call_id = l.call_id AND l.work = 'follow'
    RETURNING c.call_id
), callback_line AS (
    INSERT INTO provider_callbacks AS b (call_id, delivery_id, status, outcome)
    SELECT call_id, :delivery_id, :status, CASE WHEN EXISTS (SELECT FROM updated_call) THEN 'taken' ELSE 'late' END
    FROM locked_call
    WHERE :delivery_id::text IS NOT NULL
    ON CONFLICT (call_id, delivery_id) DO UPDATE SET
        deliveries = b.deliveries + 1, last_received_at = clock_timestamp()
    RETURNING b.deliveries
)
SELECT EXISTS (SELECT FROM updated_call) AS is_taken,
    coalesce((SELECT deliveries FROM callback_line), 0) AS deliveries

-- name: find_closed
-- Calls whose dispatch ended before the callback: they are canceled at the provider.
WITH closed_calls AS MATERIALIZED (
    SELECT c.call_id FROM provider_calls c
    WHERE c.provider = ANY (:providers::text[]) AND c.work = 'follow'
      AND NOT EXISTS (SELECT FROM ai_job_dispatches d WHERE d.dispatch_id = c.dispatch_id)
    LIMIT :limit FOR UPDATE SKIP LOCKED
)
UPDATE provider_calls c SET work = 'cancel', next_at = clock_timestamp(), failures = 0
FROM closed_calls
WHERE c.call_id = closed_calls.call_id

-- name: claim
-- Claims calls that are due: for each provider and kind of work up to `free`. No other process takes such a call until
-- the claim expires; the process that works on the call renews the claim.
WITH free_places AS MATERIALIZED (
    SELECT * FROM unnest(:providers::text[], :works::text[], :free::bigint[]) AS r (provider, work, free)
), due_calls AS MATERIALIZED (
    SELECT call.call_id FROM free_places room CROSS JOIN LATERAL (
        SELECT c.call_id FROM provider_calls c
        WHERE c.provider = room.provider AND c.work = room.work AND c.next_at <= (SELECT clock_timestamp())
        ORDER BY c.next_at LIMIT room.free FOR NO KEY UPDATE SKIP LOCKED
    ) call
), claimed_calls AS (
    UPDATE provider_calls c SET
        claims = c.claims + 1, next_at = clock_timestamp() + make_interval(secs => :claim_seconds::float8)
    FROM due_calls
    WHERE c.call_id = due_calls.call_id
    RETURNING c.call_id, c.tenant_id, c.job_id, c.charge_cycle, c.dispatch_id, c.lease_seq, c.provider, c.work,
        c.claims, c.failures, c.callback_hash, c.prediction, c.strays, c.reported_at
)
SELECT c.call_id, c.tenant_id, c.job_id, c.charge_cycle, c.dispatch_id, c.lease_seq, c.provider, c.work, c.claims,
    c.failures, c.callback_hash, c.prediction AS prediction_row, c.strays, coalesce(d.status, h.status) AS status,
    h.dispatch_id IS NOT NULL AS is_finished,
    coalesce(d.provider_job_id, h.provider_job_id) AS provider_job_id,
    extract(epoch FROM clock_timestamp() - c.reported_at)::float8 AS reported_seconds_ago
FROM claimed_calls c
LEFT JOIN ai_job_dispatches d ON d.dispatch_id = c.dispatch_id
LEFT JOIN dispatch_history h ON h.dispatch_id = c.dispatch_id

-- name: keep_claim
UPDATE provider_calls SET next_at = clock_timestamp() + make_interval(secs => :claim_seconds::float8)
WHERE call_id = :call_id AND claims = :claims AND work = :held

-- name: postpone
-- Sets the time of the next work, and its kind; not if a callback has changed the kind meanwhile.
UPDATE provider_calls SET
    work = :work, next_at = clock_timestamp() + make_interval(secs => :seconds::float8), failures = :failures,
    last_error = coalesce(:error, last_error),
    prediction = CASE WHEN :work = 'collect' THEN prediction END
WHERE call_id = :call_id AND claims = :claims AND work = :held

-- name: end_call
-- Ends the call, unless strays must still be canceled.
UPDATE provider_calls SET
    work = CASE WHEN strays <> '{}' AND work <> 'cancel' THEN 'cancel' END,
    next_at = CASE WHEN strays <> '{}' AND work <> 'cancel' THEN clock_timestamp() END,
    ended_at = CASE WHEN strays <> '{}' AND work <> 'cancel' THEN NULL ELSE clock_timestamp() END,
    prediction = prediction - 'outputs' - 'text',
    last_error = coalesce(:error, last_error)
WHERE call_id = :call_id AND work IS NOT NULL

-- name: count_calls
SELECT provider, count(*) AS calls FROM provider_calls
WHERE provider = ANY (:providers::text[]) AND work IS NOT NULL
GROUP BY provider

-- name: sweep_calls
-- The callbacks of a call are deleted with it. A later callback of the call is refused as unknown.
WITH old_calls AS MATERIALIZED (
    SELECT call_id FROM provider_calls
    WHERE ended_at < (SELECT clock_timestamp() - make_interval(days => :days::integer))
    ORDER BY ended_at LIMIT :limit FOR UPDATE SKIP LOCKED
)
DELETE FROM provider_calls c USING old_calls WHERE c.call_id = old_calls.call_id
