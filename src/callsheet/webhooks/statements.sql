-- database: central
-- owns: provider_callbacks, provider_calls

-- name: intend
-- Before the provider is called. Handed over once more, the provider may know it already.
INSERT INTO provider_calls AS c (
    tenant_id, job_id, charge_cycle, dispatch_id, lease_seq, provider, callback_hash, next_at)
VALUES (
    :tenant_id, :job_id, :charge_cycle, :dispatch_id, :lease_seq, :provider, :callback_hash,
    clock_timestamp() + make_interval(secs => :look_seconds::float8))
ON CONFLICT (tenant_id, job_id, charge_cycle) DO UPDATE SET
    hand_overs = c.hand_overs + 1, lease_seq = excluded.lease_seq
RETURNING c.hand_overs, c.callback_hash

-- name: deferred
-- What came before this is fetched at once.
UPDATE provider_calls SET
    next_at = clock_timestamp() + make_interval(secs =>
        CASE WHEN work = 'collect' OR strays <> '{}' THEN 0 ELSE :look_seconds::float8 END),
    failures = 0
WHERE dispatch_id = :dispatch_id AND work IN ('follow', 'collect')
RETURNING work

-- name: add_stray
-- Submitted by a worker whose lease was over when it said so. What has ended is taken up again for it. A report that is
-- merely repeated is about the one that is waited for.
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

-- name: note_refusal
UPDATE provider_calls SET refused_callbacks = refused_callbacks + 1, last_refusal = :reason WHERE call_id = :call_id

-- name: take_prediction
-- How it ended, once: later words change nothing. One line per delivery, where it came by a callback.
WITH call AS MATERIALIZED (
    SELECT call_id, work FROM provider_calls WHERE call_id = :call_id FOR NO KEY UPDATE
), taken AS (
    UPDATE provider_calls c SET
        prediction = :prediction, reported_at = clock_timestamp(), work = 'collect', next_at = clock_timestamp(),
        failures = 0
    FROM call WHERE c.call_id = call.call_id AND call.work = 'follow'
    RETURNING c.call_id
), line AS (
    INSERT INTO provider_callbacks AS b (call_id, delivery_id, status, outcome)
    SELECT call_id, :delivery_id, :status, CASE WHEN EXISTS (SELECT FROM taken) THEN 'taken' ELSE 'late' END
    FROM call WHERE :delivery_id::text IS NOT NULL
    ON CONFLICT (call_id, delivery_id) DO UPDATE SET
        deliveries = b.deliveries + 1, last_received_at = clock_timestamp()
    RETURNING b.deliveries
)
SELECT EXISTS (SELECT FROM taken) AS taken, coalesce((SELECT deliveries FROM line), 0) AS deliveries

-- name: find_closed
-- Calls whose dispatch has ended while they were waited for: they are canceled at the provider.
WITH closed AS MATERIALIZED (
    SELECT c.call_id FROM provider_calls c
    WHERE c.provider = ANY (:providers::text[]) AND c.work = 'follow'
      AND NOT EXISTS (SELECT FROM ai_job_dispatches d WHERE d.dispatch_id = c.dispatch_id)
    LIMIT :limit FOR UPDATE SKIP LOCKED
)
UPDATE provider_calls c SET work = 'cancel', next_at = clock_timestamp(), failures = 0
FROM closed WHERE c.call_id = closed.call_id

-- name: claim
-- What is due, of each provider and kind of work as many as there is room for. No other process takes it until the claim runs
-- out; the process that works on it renews the claim.
WITH room AS MATERIALIZED (
    SELECT * FROM unnest(:providers::text[], :works::text[], :free::bigint[]) AS r (provider, work, free)
), due AS MATERIALIZED (
    SELECT found.call_id FROM room CROSS JOIN LATERAL (
        SELECT c.call_id FROM provider_calls c
        WHERE c.provider = room.provider AND c.work = room.work AND c.next_at <= (SELECT clock_timestamp())
        ORDER BY c.next_at LIMIT room.free FOR NO KEY UPDATE SKIP LOCKED
    ) found
), claimed AS (
    UPDATE provider_calls c SET
        claims = c.claims + 1, next_at = clock_timestamp() + make_interval(secs => :claim_seconds::float8)
    FROM due WHERE c.call_id = due.call_id
    RETURNING c.*
)
SELECT c.call_id, c.tenant_id, c.job_id, c.charge_cycle, c.dispatch_id, c.lease_seq, c.provider, c.work, c.claims, c.failures,
    c.callback_hash, c.prediction, c.strays, coalesce(d.status, h.status) AS status, h.dispatch_id IS NOT NULL AS is_finished,
    coalesce(d.provider_job_id, h.provider_job_id) AS provider_job_id,
    extract(epoch FROM clock_timestamp() - c.reported_at)::float8 AS reported_seconds_ago
FROM claimed c
LEFT JOIN ai_job_dispatches d ON d.dispatch_id = c.dispatch_id
LEFT JOIN dispatch_history h ON h.dispatch_id = c.dispatch_id

-- name: keep_claim
UPDATE provider_calls SET next_at = clock_timestamp() + make_interval(secs => :claim_seconds::float8)
WHERE call_id = :call_id AND claims = :claims AND work = :held

-- name: postpone
-- To another time, or to another kind of work. Not where a callback came meanwhile: that has made it another already.
UPDATE provider_calls SET
    work = :work, next_at = clock_timestamp() + make_interval(secs => :seconds::float8), failures = :failures,
    last_error = coalesce(:error, last_error),
    prediction = CASE WHEN :work = 'collect' THEN prediction END
WHERE call_id = :call_id AND claims = :claims AND work = :held

-- name: end_call
-- Not quite, where something is left to be canceled.
UPDATE provider_calls SET
    work = CASE WHEN strays <> '{}' AND work <> 'cancel' THEN 'cancel' END,
    next_at = CASE WHEN strays <> '{}' AND work <> 'cancel' THEN clock_timestamp() END,
    ended_at = CASE WHEN strays <> '{}' AND work <> 'cancel' THEN NULL ELSE clock_timestamp() END,
    prediction = prediction - 'outputs' - 'text',
    last_error = coalesce(:error, last_error)
WHERE call_id = :call_id AND work IS NOT NULL

-- name: count_calls
SELECT provider, count(*) AS calls FROM provider_calls
WHERE provider = ANY (:providers::text[]) AND work IS NOT NULL GROUP BY provider

-- name: sweep_calls
-- With their callbacks. A word about one that comes after that is about nothing we know.
WITH old AS MATERIALIZED (
    SELECT call_id FROM provider_calls
    WHERE ended_at < (SELECT clock_timestamp() - make_interval(days => :days::integer))
    ORDER BY ended_at LIMIT :limit FOR UPDATE SKIP LOCKED
)
DELETE FROM provider_calls c USING old WHERE c.call_id = old.call_id
