-- database: central
-- owns: ai_job_dispatches, concurrency_limits, dispatch_history, dispatch_lanes

-- name: find_workflow
SELECT id, slug, name, run_limit_seconds, lease_seconds, max_attempts FROM workflows WHERE slug = :slug AND is_active

-- name: open_lanes
-- Creates the lanes that do not exist yet.
WITH wanted_lane AS MATERIALIZED (
    SELECT DISTINCT workflow_id, stage, provider, concurrency_identifier, priority, tenant_id, user_id
    FROM unnest(
        :workflow_ids::bigint[], :stages::text[], :providers::text[], :identifiers::text[], :priorities::integer[],
        :tenant_ids::uuid[], :user_ids::uuid[])
        AS w (workflow_id, stage, provider, concurrency_identifier, priority, tenant_id, user_id)
    ORDER BY 1, 2, 3, 4, 5, 6, 7
)
INSERT INTO dispatch_lanes (workflow_id, stage, provider, concurrency_identifier, priority, tenant_id, user_id)
SELECT workflow_id, stage, provider, concurrency_identifier, priority, tenant_id, user_id FROM wanted_lane
ON CONFLICT DO NOTHING

-- part: entry_record
-- The fields of a QueueEntry, and the tenant and the user of its lane.
tenant_id uuid, user_id uuid, job_id uuid, charge_cycle integer, workflow_id bigint, stage text, provider text,
concurrency_identifier text, priority integer, kind text, max_attempts integer, lease_seconds integer,
run_limit_seconds integer, deadline_at timestamptz, lane_tenant_id uuid, lane_user_id uuid

-- part: lane_of_wanted
-- The lanes of the wanted dispatches. No low-water mark is moved, and no lane removed, until the transaction ends.
lane AS MATERIALIZED (
    SELECT l.lane_id, l.workflow_id, l.stage, l.provider, l.concurrency_identifier, l.priority, l.tenant_id, l.user_id,
        l.has_work
    FROM dispatch_lanes l
    WHERE (l.workflow_id, l.stage, l.provider, l.concurrency_identifier, l.priority, l.tenant_id, l.user_id) IN (
        SELECT workflow_id, stage, provider, concurrency_identifier, priority, lane_tenant_id, lane_user_id
        FROM wanted_dispatch)
    ORDER BY l.lane_id
    FOR KEY SHARE OF l
)

-- part: is_lane_of_entry
(lane.workflow_id, lane.stage, lane.provider, lane.concurrency_identifier, lane.priority, lane.tenant_id, lane.user_id)
    = (e.workflow_id, e.stage, e.provider, e.concurrency_identifier, e.priority, e.lane_tenant_id, e.lane_user_id)

-- part: new_dispatch_columns
tenant_id, user_id, tenant_job_id, charge_cycle, lane_id, workflow_id, stage, provider, concurrency_identifier,
priority, kind, max_attempts, lease_seconds, run_limit_seconds, deadline_at

-- part: entry_values
-- The values of these columns.
e.tenant_id, e.user_id, e.job_id, e.charge_cycle, lane.lane_id, e.workflow_id, e.stage, e.provider,
e.concurrency_identifier, e.priority, e.kind, e.max_attempts, e.lease_seconds, e.run_limit_seconds, e.deadline_at

-- name: enqueue
-- The lanes' rows are locked FOR KEY SHARE before ids are drawn: while a low-water mark is being moved (FOR UPDATE), no
-- uncommitted row can have an id below it, and no lane is removed. An existing dispatch stays unchanged. has_work is
-- read from the locked row, because the snapshot may show an older value.
WITH wanted_dispatch AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(:entries::jsonb) AS e (
        {entry_record})
), {lane_of_wanted}, locked_lane AS MATERIALIZED (
    SELECT l.lane_id FROM dispatch_lanes l
    WHERE l.lane_id IN (SELECT lane_id FROM lane WHERE NOT has_work)
    ORDER BY l.lane_id FOR NO KEY UPDATE
), woken_lane AS (
    UPDATE dispatch_lanes l SET has_work = true FROM locked_lane WHERE l.lane_id = locked_lane.lane_id
), new_dispatch AS (
    INSERT INTO ai_job_dispatches ({new_dispatch_columns})
    SELECT {entry_values}
    FROM wanted_dispatch e JOIN lane ON {is_lane_of_entry}
    -- A finished dispatch must not be created again.
    WHERE NOT EXISTS (
        SELECT FROM dispatch_history h
        WHERE h.tenant_id = e.tenant_id AND h.tenant_job_id = e.job_id
            AND h.charge_cycle = e.charge_cycle)
    ON CONFLICT (tenant_id, tenant_job_id, charge_cycle) DO NOTHING
    RETURNING dispatch_id, lane_id
)
SELECT lane.lane_id, lane.workflow_id, lane.stage, lane.provider, lane.concurrency_identifier, lane.priority,
    lane.tenant_id AS lane_tenant_id, lane.user_id AS lane_user_id, placed.dispatch_id,
    (SELECT count(*) FROM wanted_dispatch e
     WHERE NOT EXISTS (SELECT FROM lane WHERE {is_lane_of_entry})) AS without_lane
FROM (SELECT 1) AS one LEFT JOIN new_dispatch placed ON true LEFT JOIN lane ON lane.lane_id = placed.lane_id

-- part: lease_of_dispatch
dispatch_id, tenant_id, tenant_job_id AS job_id, charge_cycle, lease_token, lease_seq, lease_expires_at, lease_seconds,
workflow_id, provider, kind, worker_id, attempts, run_limit_seconds, wedges, lane_id

-- part: lease
dispatch_id, tenant_id, job_id, charge_cycle, lease_token, lease_seq, lease_expires_at, lease_seconds,
workflow_id, provider, kind, worker_id, attempts, run_limit_seconds, wedges, lane_id

-- name: enqueue_leased
-- Creates dispatches that are leased at once: they are never queued unless the lease is lost. A job with bounds is sent
-- alone, after its bounds were locked and counted. A drained worker gets nothing.
WITH wanted_dispatch AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(:entries::jsonb) AS e (
        {entry_record}, worker_id text, token uuid)
), {lane_of_wanted}, new_dispatch AS (
    INSERT INTO ai_job_dispatches ({new_dispatch_columns}, status, worker_id, lease_token,
        lease_seq, attempts, lease_expires_at, leased_at, last_leased_at, queue_wait_seconds)
    SELECT {entry_values}, 'leased', e.worker_id, e.token, 1, 1,
        clock_timestamp() + make_interval(secs => e.lease_seconds), clock_timestamp(), clock_timestamp(), 0
    FROM wanted_dispatch e JOIN lane ON {is_lane_of_entry}
    WHERE e.worker_id <> ALL ((SELECT drained_workers(ARRAY (SELECT worker_id FROM wanted_dispatch)))::text[])
      AND NOT EXISTS (
        SELECT FROM dispatch_history h
        WHERE h.tenant_id = e.tenant_id AND h.tenant_job_id = e.job_id
            AND h.charge_cycle = e.charge_cycle)
    ON CONFLICT (tenant_id, tenant_job_id, charge_cycle) DO NOTHING
    RETURNING {lease_of_dispatch}
)
SELECT {lease},
    (SELECT count(*) FROM wanted_dispatch e
     WHERE NOT EXISTS (SELECT FROM lane WHERE {is_lane_of_entry})) AS without_lane
FROM (SELECT 1) AS one LEFT JOIN new_dispatch ON true

-- name: lanes_with_work
-- The lanes with work on the routes that a worker may serve, each with its first row. A lease runs this only if it
-- knows of no lane with work, or may have missed notifications.
SELECT lane.lane_id, lane.workflow_id, lane.stage, lane.provider, lane.concurrency_identifier, lane.priority,
    lane.tenant_id AS lane_tenant_id, lane.user_id AS lane_user_id, first.dispatch_id
FROM dispatch_lanes lane CROSS JOIN LATERAL (
    SELECT d.dispatch_id FROM ai_job_dispatches d
    WHERE (d.lane_id, d.dispatch_id) >= (lane.lane_id, lane.low_water) AND d.lane_id <= lane.lane_id
      AND d.status = 'queued' AND d.not_before IS NULL
    ORDER BY d.lane_id, d.dispatch_id LIMIT 1
) first
WHERE lane.workflow_id = ANY (:workflow_ids::bigint[]) AND lane.stage = :stage
  AND lane.provider = ANY (:providers::text[])
  AND lane.has_work
ORDER BY first.dispatch_id

-- name: take
-- Leases the heads of the lanes whose turn it is: at most one for each entry of :workers, and none for a drained
-- worker. A user queue is the lanes of one user, oldest rows first. It gives :wanted rows, and up to :spare more if
-- other statements are taking its first rows at this moment. The columns of a lease come first. `poller` is the entry
-- of :workers that a row is for, `pollers` the number of entries that are not drained, `found_counts` the number of
-- rows seen in each of `found_queues`, `found_next` the first row after the wanted ones. Only one row has the `found`
-- columns: they have a value per user queue. The caller sends the tokens: if PostgreSQL is built without OpenSSL, its
-- own UUIDs took a third of the statement's time.
--
-- Heads are found by a comparison and an order of pairs, which only the index dispatches_queued supports. With lane_id
-- = … AND dispatch_id >= … the planner may use the primary key and scan the rows of all other lanes. For the same
-- reason the rows are then locked by ctid: a plan made while the table was empty looked them up in all of
-- dispatches_queued, which took 600,000 blocks at a million rows.
-- one statement because: between two statements another control plane could lease the heads that the first one found.
WITH pollers AS MATERIALIZED (
    -- One row with an array that is read by index. One row per entry would be joined with the heads in a nested loop
    -- (100 times 100 rows), because a generic plan expects a short array.
    SELECT ARRAY (
        SELECT a.poller FROM unnest(:workers::text[]) WITH ORDINALITY AS a (worker_id, poller)
        WHERE a.worker_id <> ALL ((SELECT drained_workers(:workers::text[]))::text[])
        ORDER BY a.poller) AS places
), lane AS MATERIALIZED (
    -- If :user_queues is empty, each lane is its own user queue; if :wanted is empty, each user queue gives one row.
    SELECT s.lane_id, coalesce(s.user_queue, s.place::integer - 1) AS user_queue, coalesce(s.wanted, 1) AS wanted,
        (SELECT l.low_water FROM dispatch_lanes l WHERE l.lane_id = s.lane_id) AS low_water
    FROM unnest(:lane_ids::bigint[], :user_queues::integer[], :wanted::integer[]) WITH ORDINALITY
        AS s (lane_id, user_queue, wanted, place)
), lane_head AS MATERIALIZED (
    SELECT lane.user_queue, lane.wanted, first.dispatch_id, first.place_found,
        row_number() OVER (PARTITION BY lane.user_queue ORDER BY first.dispatch_id) AS place
    FROM lane CROSS JOIN LATERAL (
        SELECT d.dispatch_id, d.ctid AS place_found FROM ai_job_dispatches d
        WHERE (d.lane_id, d.dispatch_id) >= (lane.lane_id, lane.low_water) AND d.lane_id <= lane.lane_id
          AND d.status = 'queued' AND d.not_before IS NULL
        ORDER BY d.lane_id, d.dispatch_id LIMIT lane.wanted + :spare::integer + 1
    ) first
), wanted_head AS MATERIALIZED (
    -- The limit excludes no row. It makes the planner expect few rows, so that each is looked up by its ctid.
    SELECT user_queue, dispatch_id, place_found, place, place > wanted AS is_spare FROM lane_head
    WHERE place <= wanted + :spare::integer
    ORDER BY place > wanted, user_queue, dispatch_id LIMIT (SELECT count(*) FROM lane_head)
), locked_dispatch AS MATERIALIZED (
    SELECT d.dispatch_id, d.ctid AS place_locked, wanted_head.user_queue, wanted_head.place
    FROM wanted_head JOIN ai_job_dispatches d ON d.ctid = wanted_head.place_found
    WHERE d.status = 'queued' AND d.not_before IS NULL AND d.attempts < d.max_attempts
      AND d.deadline_at > coalesce(:now, clock_timestamp())
    ORDER BY wanted_head.is_spare, wanted_head.user_queue, d.dispatch_id
    LIMIT (SELECT cardinality(places) FROM pollers)
    FOR NO KEY UPDATE OF d SKIP LOCKED
), assigned_dispatch AS (
    SELECT place_locked, user_queue,
        (SELECT places FROM pollers)[row_number() OVER (ORDER BY user_queue, place)] AS poller
    FROM locked_dispatch
), leased_dispatch AS (
    UPDATE ai_job_dispatches d SET status = 'leased', lease_seq = d.lease_seq + 1, attempts = d.attempts + 1,
        worker_id = (:workers::text[])[poller], lease_token = (:tokens::uuid[])[poller],
        poll_id = (:poll_ids::text[])[poller],
        lease_expires_at = coalesce(:now, clock_timestamp()) + make_interval(secs => d.lease_seconds),
        leased_at = coalesce(d.leased_at, :now, clock_timestamp()),
        last_leased_at = coalesce(:now, clock_timestamp()),
        queue_wait_seconds = coalesce(d.queue_wait_seconds,
            date_part('epoch', coalesce(:now, clock_timestamp()) - d.created_at))
    FROM assigned_dispatch
    WHERE d.ctid = assigned_dispatch.place_locked
    RETURNING {lease_of_dispatch}, poller, user_queue
), queue_totals AS MATERIALIZED (
    SELECT coalesce(array_agg(user_queue), '{}') AS queues, array_agg(rows) AS counts, array_agg(next) AS next
    FROM (
        SELECT user_queue, count(*)::integer AS rows, min(dispatch_id) FILTER (WHERE place > wanted) AS next
        FROM lane_head
        GROUP BY user_queue
    ) each
)
SELECT {lease}, poller, user_queue, pollers.count AS pollers, queue_totals.queues AS found_queues,
    queue_totals.counts AS found_counts, queue_totals.next AS found_next
FROM (SELECT cardinality(places) AS count, places[1] AS first FROM pollers) pollers
LEFT JOIN leased_dispatch ON true
LEFT JOIN queue_totals ON poller IS NULL OR poller = pollers.first

-- part: after_locked_identifier
(SELECT count(*) FROM locked_identifier) >= 0

-- name: lock_bounds
-- Runs before the counts: locks the limits of identifiers, then the tenants that have a limit of jobs in flight.
WITH locked_identifier AS MATERIALIZED (
    SELECT identifier FROM concurrency_limits
    WHERE identifier = ANY (:identifiers::text[])
    ORDER BY identifier FOR UPDATE
), locked_tenant AS MATERIALIZED (
    SELECT id FROM tenants
    WHERE {after_locked_identifier} AND id = ANY (:tenant_ids::uuid[])
    ORDER BY id FOR NO KEY UPDATE
)
SELECT count(*) FROM locked_tenant

-- name: count_bounds
-- The number of jobs in flight for each bound, and for an identifier also the limit.
SELECT i.identifier, NULL::uuid AS tenant_id, NULL::uuid AS user_id,
    (SELECT c.max_concurrent FROM concurrency_limits c WHERE c.identifier = i.identifier) AS max_concurrent,
    (SELECT count(*) FROM ai_job_dispatches d
     WHERE d.concurrency_identifier = i.identifier AND d.concurrency_identifier <> ''
       AND d.status <> 'queued') AS in_use
FROM unnest(:identifiers::text[]) AS i (identifier)
UNION ALL
SELECT NULL, t.tenant_id, NULL, NULL,
    (SELECT count(*) FROM ai_job_dispatches d WHERE d.tenant_id = t.tenant_id AND d.status <> 'queued')
FROM unnest(:tenant_ids::uuid[]) AS t (tenant_id)
UNION ALL
SELECT NULL, u.tenant_id, u.user_id, NULL,
    (SELECT count(*) FROM ai_job_dispatches d
     WHERE d.tenant_id = u.tenant_id AND d.user_id = u.user_id AND d.status <> 'queued')
FROM unnest(:users_tenants::uuid[], :users::uuid[]) AS u (tenant_id, user_id)

-- name: terms
SELECT id AS tenant_id, weight, max_running, max_running_per_user FROM tenants
WHERE weight <> 1 OR max_running IS NOT NULL OR max_running_per_user IS NOT NULL

-- name: in_flight
SELECT d.lane_id, d.workflow_id, d.stage, d.provider, d.concurrency_identifier, d.priority,
    l.tenant_id AS lane_tenant_id, l.user_id AS lane_user_id, d.dispatch_id
FROM ai_job_dispatches d JOIN dispatch_lanes l ON l.lane_id = d.lane_id
WHERE d.status <> 'queued'

-- name: heartbeat
-- Extends the lease to now + lease_seconds, but never past the run limit, so a stuck engine cannot keep a job. The
-- limit counts from the start of the run, or from the lease if the worker reports neither a started run nor a wait for
-- its engine.
WITH heartbeat AS MATERIALIZED (
    -- Two heartbeats of one lease in the same batch are merged.
    SELECT dispatch_id, token, worker_id, bool_or(run_started) AS run_started, bool_or(run_waiting) AS run_waiting,
        max(provider_job_id) AS provider_job_id
    FROM unnest(
        :dispatch_ids::bigint[], :tokens::uuid[], :workers::text[], :run_started::boolean[], :run_waiting::boolean[],
        :provider_job_ids::text[])
        AS b (dispatch_id, token, worker_id, run_started, run_waiting, provider_job_id)
    GROUP BY dispatch_id, token, worker_id
), held_lease AS MATERIALIZED (
    SELECT d.dispatch_id, heartbeat.run_started, heartbeat.run_waiting, heartbeat.provider_job_id
    FROM heartbeat JOIN ai_job_dispatches d USING (dispatch_id)
    WHERE d.lease_token = heartbeat.token AND (heartbeat.worker_id IS NULL OR d.worker_id = heartbeat.worker_id)
    ORDER BY d.dispatch_id FOR NO KEY UPDATE OF d
)
UPDATE ai_job_dispatches d SET
    heartbeat_at = coalesce(:now, clock_timestamp()),
    provider_job_id = coalesce(held_lease.provider_job_id, d.provider_job_id),
    run_started_at = CASE WHEN held_lease.run_started THEN coalesce(d.run_started_at, :now, clock_timestamp())
                          ELSE d.run_started_at END,
    lease_expires_at = greatest(d.lease_expires_at, least(
        coalesce(:now, clock_timestamp()) + make_interval(secs => d.lease_seconds),
        coalesce(d.run_started_at, CASE WHEN held_lease.run_started OR held_lease.run_waiting
            THEN coalesce(:now, clock_timestamp()) ELSE d.last_leased_at END)
            + make_interval(secs => d.run_limit_seconds)))
FROM held_lease
WHERE d.dispatch_id = held_lease.dispatch_id
RETURNING d.dispatch_id, d.tenant_id, d.tenant_job_id AS job_id, d.charge_cycle, d.lease_seq, d.lease_token,
    d.lease_expires_at, d.cancel_requested_at IS NOT NULL AS cancel_requested,
    greatest(0, extract(epoch FROM d.lease_expires_at - coalesce(:now, clock_timestamp())))::float8 AS ttl_seconds,
    (SELECT count(*) FROM ai_job_dispatches held WHERE held.worker_id = d.worker_id AND held.status = 'leased')
        AS held_by_worker

-- name: find
-- Each dispatch, live or finished.
SELECT d.dispatch_id, d.tenant_id, d.tenant_job_id AS job_id, d.charge_cycle, d.status, d.lease_token, d.lease_seq,
    d.past_lease_tokens, d.past_workers, d.worker_id, d.attempts, d.max_attempts, d.requeues, d.cancel_requested_at,
    d.workflow_id, d.provider, d.kind, d.lease_expires_at, d.lease_seconds, d.run_limit_seconds, false AS finished,
    d.wedges, d.refused_by, d.provider_job_id
FROM ai_job_dispatches d
WHERE d.dispatch_id = ANY (:dispatch_ids::bigint[])
UNION ALL
SELECT h.dispatch_id, h.tenant_id, h.tenant_job_id, h.charge_cycle, h.status, h.lease_token, h.lease_seq,
    h.past_lease_tokens, h.past_workers, h.worker_id, h.attempts, h.attempts, h.requeues, NULL, h.workflow_id,
    h.provider, h.kind, NULL, 0, 0, true, 0, '{}', h.provider_job_id
FROM dispatch_history h
WHERE h.dispatch_id = ANY (:dispatch_ids::bigint[])

-- part: lane_of_dispatch
-- The fields of a Lane, for a changed dispatch `d`.
d.lane_id, d.workflow_id, d.stage, d.provider, d.concurrency_identifier, d.priority,
(SELECT l.tenant_id FROM dispatch_lanes l WHERE l.lane_id = d.lane_id) AS lane_tenant_id,
(SELECT l.user_id FROM dispatch_lanes l WHERE l.lane_id = d.lane_id) AS lane_user_id

-- part: after_marked_lane
(SELECT count(*) FROM marked_lane) >= 0

-- part: past_leases
-- The last hundred, for late reports. There may be many: a job whose pool is away is leased and returned again.
past_lease_tokens = (d.past_lease_tokens || d.lease_token)[greatest(1, cardinality(d.past_lease_tokens) - 98):],
past_workers = (d.past_workers || d.worker_id)[greatest(1, cardinality(d.past_workers) - 98):]

-- name: requeue
-- Puts dispatches back into the queue if the token still holds the lease. The lanes' marks are lowered first and
-- unconditionally, so that the statement waits for a concurrent raise. It locks lanes, then dispatches, each in key
-- order, as everywhere here.
WITH requeue_request AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(:entries::jsonb) AS b (
        dispatch_id bigint, token uuid, attempt_counts boolean, counts_as_requeue boolean, only_expired boolean,
        delay_seconds double precision, error text, wedged boolean, refused boolean)
), first_dispatch AS MATERIALIZED (
    SELECT d.lane_id, min(d.dispatch_id) AS dispatch_id
    FROM requeue_request JOIN ai_job_dispatches d USING (dispatch_id)
    GROUP BY d.lane_id
), lane AS MATERIALIZED (
    SELECT lane_id FROM dispatch_lanes
    WHERE lane_id IN (SELECT lane_id FROM first_dispatch)
    ORDER BY lane_id FOR NO KEY UPDATE
), marked_lane AS (
    UPDATE dispatch_lanes l SET low_water = least(l.low_water, first_dispatch.dispatch_id), has_work = true
    FROM first_dispatch JOIN lane USING (lane_id)
    WHERE l.lane_id = first_dispatch.lane_id
    RETURNING l.lane_id
), held_lease AS MATERIALIZED (
    SELECT r.dispatch_id, r.attempt_counts, r.counts_as_requeue, r.delay_seconds, r.error, r.wedged, r.refused
    FROM requeue_request r JOIN ai_job_dispatches d ON d.dispatch_id = r.dispatch_id
    WHERE {after_marked_lane} AND d.lease_token = r.token
      AND (NOT r.only_expired OR d.lease_expires_at <= coalesce(:now, clock_timestamp()))
    ORDER BY d.dispatch_id FOR NO KEY UPDATE OF d
)
UPDATE ai_job_dispatches d SET
    status = 'queued',
    worker_id = NULL,
    {past_leases},
    lease_token = NULL,
    poll_id = NULL,
    lease_expires_at = NULL,
    heartbeat_at = NULL,
    run_started_at = NULL,
    attempts = d.attempts - CASE WHEN held_lease.attempt_counts THEN 0 ELSE 1 END,
    requeues = d.requeues + CASE WHEN held_lease.counts_as_requeue THEN 1 ELSE 0 END,
    wedges = d.wedges + CASE WHEN held_lease.wedged THEN 1 ELSE 0 END,
    refused_by = CASE WHEN held_lease.refused THEN array_remove(d.refused_by, d.worker_id) || d.worker_id
                      ELSE d.refused_by END,
    not_before = CASE WHEN held_lease.delay_seconds > 0
                      THEN coalesce(:now, clock_timestamp()) + make_interval(secs => held_lease.delay_seconds) END,
    last_error = coalesce(held_lease.error, d.last_error)
FROM held_lease
WHERE d.dispatch_id = held_lease.dispatch_id
RETURNING {lane_of_dispatch},
    d.dispatch_id, d.tenant_id, d.tenant_job_id AS job_id, d.charge_cycle, d.lease_seq, d.attempts, d.not_before,
    extract(epoch FROM coalesce(:now, clock_timestamp()) - d.last_leased_at)::float8 AS held_seconds

-- name: workflow_slug
SELECT slug FROM workflows WHERE id = :workflow_id

-- name: lane_behind
-- The values to open the lane behind that of a lease: one priority lower, if there is a lower one.
SELECT d.workflow_id, d.stage, d.provider, d.concurrency_identifier,
    greatest(d.priority::bigint - 1, -2147483648)::integer AS priority, l.tenant_id, l.user_id
FROM ai_job_dispatches d JOIN dispatch_lanes l ON l.lane_id = d.lane_id
WHERE d.dispatch_id = :dispatch_id AND d.lease_token = :token

-- name: lock_lanes_behind
-- Locks the lane of a dispatch and the lane behind it before the dispatch: lanes first and in key order, as everywhere.
SELECT l.lane_id FROM ai_job_dispatches d JOIN dispatch_lanes own ON own.lane_id = d.lane_id JOIN dispatch_lanes l
    ON l.workflow_id = d.workflow_id AND l.stage = d.stage AND l.provider = d.provider
    AND l.concurrency_identifier = d.concurrency_identifier AND l.priority IN (d.priority, :priority)
    AND l.tenant_id = own.tenant_id AND l.user_id = own.user_id
WHERE d.dispatch_id = :dispatch_id
ORDER BY l.lane_id FOR NO KEY UPDATE OF l

-- name: move_behind
-- Moves a dispatch that was requeued in this transaction. The mark of its new lane is lowered first, as in requeue.
WITH marked_lane AS (
    UPDATE dispatch_lanes l SET low_water = least(l.low_water, d.dispatch_id), has_work = true
    FROM ai_job_dispatches d JOIN dispatch_lanes own ON own.lane_id = d.lane_id
    WHERE d.dispatch_id = :dispatch_id AND l.workflow_id = d.workflow_id AND l.stage = d.stage
      AND l.provider = d.provider AND l.concurrency_identifier = d.concurrency_identifier AND l.priority = :priority
      AND l.tenant_id = own.tenant_id AND l.user_id = own.user_id
    RETURNING l.lane_id, l.priority
)
UPDATE ai_job_dispatches d SET lane_id = marked_lane.lane_id, priority = marked_lane.priority
FROM marked_lane
WHERE d.dispatch_id = :dispatch_id
RETURNING d.lane_id

-- name: wait
-- The job was submitted to a provider: it holds no lease and no worker slot, but it counts in the provider's limit.
UPDATE ai_job_dispatches d SET
    status = 'waiting',
    worker_id = NULL,
    {past_leases},
    lease_token = NULL,
    provider_job_id = :provider_job_id,
    lease_expires_at = least(:expires_at, d.deadline_at)
WHERE d.dispatch_id = :dispatch_id AND d.lease_token = :token
RETURNING extract(epoch FROM clock_timestamp() - d.last_leased_at)::float8 AS held_seconds

-- part: moved_to_history
ending AS MATERIALIZED (
    SELECT * FROM unnest(
        :dispatch_ids::bigint[], :tokens::uuid[], :statuses::text[], :provider_job_ids::text[], :errors::text[])
        AS e (dispatch_id, token, status, provider_job_id, error)
), closed_dispatch AS (
    -- Not d.*: PostgreSQL stores each returned column once more before it inserts into history.
    DELETE FROM ai_job_dispatches d USING ending
    WHERE d.dispatch_id = ending.dispatch_id AND (ending.token IS NULL OR d.lease_token = ending.token)
    RETURNING d.dispatch_id, d.tenant_id, d.tenant_job_id, d.charge_cycle, d.workflow_id, d.stage, d.provider,
        d.concurrency_identifier, d.priority, d.kind, d.status, d.attempts, d.requeues, d.lease_token, d.lease_seq,
        d.past_lease_tokens, d.past_workers, d.worker_id, d.provider_job_id, d.last_error, d.created_at,
        d.queue_wait_seconds, d.last_leased_at, d.run_started_at,
        coalesce(ending.status, (:statuses::text[])[1]) AS end_status, ending.provider_job_id AS end_provider_job_id,
        ending.error AS end_error
)
INSERT INTO dispatch_history (
    dispatch_id, tenant_id, tenant_job_id, charge_cycle, workflow_id, stage, provider, concurrency_identifier, priority,
    kind, status, attempts, requeues, lease_token, lease_seq, past_lease_tokens, past_workers, worker_id,
    provider_job_id, last_error, created_at, queue_wait_seconds, last_leased_at, run_started_at, finished_at,
    duration_seconds)
SELECT dispatch_id, tenant_id, tenant_job_id, charge_cycle, workflow_id, stage, provider, concurrency_identifier,
    priority, kind, end_status, attempts, requeues, lease_token, lease_seq, past_lease_tokens, past_workers, worker_id,
    coalesce(end_provider_job_id, provider_job_id), coalesce(end_error, last_error), created_at, queue_wait_seconds,
    last_leased_at, run_started_at, clock_timestamp(),
    -- A dispatch that was queued when it ended has no run, even if it was leased before.
    CASE WHEN status <> 'queued' THEN
        date_part('epoch', clock_timestamp() - coalesce(run_started_at, last_leased_at)) END
FROM closed_dispatch

-- part: closed_columns
dispatch_id, workflow_id, duration_seconds,
date_part('epoch', finished_at - last_leased_at) AS held_seconds, concurrency_identifier, stage, provider

-- name: close
-- Moves finished dispatches from the hot table to history. If a token is given, it must be the current one. Rows are
-- deleted in the given order, which is the order of ids. A single status applies to all rows.
WITH {moved_to_history}
RETURNING {closed_columns}

-- name: close_returned
-- Like `close`, if a dispatch was created again after it finished (two processes relayed the job while it ended):
-- history gets no second row. A separate statement, because the check for a row would cost `close` a sixth of its time.
WITH {moved_to_history}
ON CONFLICT DO NOTHING
RETURNING {closed_columns}

-- name: end_for_jobs
-- The job ended in its pool. The caller closes dispatches without a lease; workers of leased ones learn it by
-- heartbeat.
WITH ended_job AS MATERIALIZED (
    SELECT * FROM unnest(:tenant_ids::uuid[], :job_ids::uuid[], :cycles::integer[], :statuses::text[])
        AS e (tenant_id, job_id, charge_cycle, status)
), locked_dispatch AS MATERIALIZED (
    SELECT d.dispatch_id, ended_job.status FROM ended_job JOIN ai_job_dispatches d
        ON d.tenant_id = ended_job.tenant_id AND d.tenant_job_id = ended_job.job_id
        AND d.charge_cycle = ended_job.charge_cycle
    ORDER BY d.dispatch_id FOR NO KEY UPDATE OF d
)
UPDATE ai_job_dispatches d SET cancel_requested_at = coalesce(d.cancel_requested_at, clock_timestamp())
FROM locked_dispatch
WHERE d.dispatch_id = locked_dispatch.dispatch_id
RETURNING d.dispatch_id, d.status, locked_dispatch.status AS job_status

-- name: find_expired
-- Expired leases and waits, and waits of jobs that have ended: no worker would report those. Reads only the work in
-- flight: without the order of the index dispatches_held, the planner would scan the primary key.
SELECT dispatch_id, tenant_id, tenant_job_id AS job_id, charge_cycle, status, lease_token, lease_seq, worker_id,
    attempts, max_attempts, cancel_requested_at, workflow_id, provider_job_id,
    extract(epoch FROM coalesce(:now, clock_timestamp()) - last_leased_at)::float8 AS held_seconds
FROM ai_job_dispatches
WHERE status <> 'queued' AND (lease_expires_at <= coalesce(:now, clock_timestamp())
    OR status = 'waiting' AND cancel_requested_at IS NOT NULL)
ORDER BY worker_id, dispatch_id LIMIT :limit

-- name: find_overdue_heads
-- Queued rows past their deadline at the heads of their lanes. No lease takes such rows, so they block the head.
SELECT head.tenant_id, head.job_id, head.charge_cycle
FROM (SELECT lane_id, low_water FROM dispatch_lanes WHERE has_work) lane CROSS JOIN LATERAL (
    SELECT d.tenant_id, d.tenant_job_id AS job_id, d.charge_cycle, d.deadline_at FROM ai_job_dispatches d
    WHERE (d.lane_id, d.dispatch_id) >= (lane.lane_id, lane.low_water) AND d.lane_id <= lane.lane_id
      AND d.status = 'queued' AND d.not_before IS NULL
    ORDER BY d.lane_id, d.dispatch_id LIMIT 5
) head
WHERE head.deadline_at <= coalesce(:now, clock_timestamp()) LIMIT :limit

-- name: promote
-- Adds rows whose delay is over to their lane. The mark is lowered as in requeue. The time is a sub-select, because an
-- index condition cannot use a volatile function.
WITH due_dispatch AS MATERIALIZED (
    SELECT ctid AS place_found, dispatch_id, lane_id FROM ai_job_dispatches
    WHERE status = 'queued' AND not_before <= (SELECT coalesce(:now, clock_timestamp()))
    ORDER BY not_before LIMIT :limit
), first_dispatch AS MATERIALIZED (
    SELECT lane_id, min(dispatch_id) AS dispatch_id FROM due_dispatch GROUP BY lane_id
), lane AS MATERIALIZED (
    SELECT lane_id FROM dispatch_lanes
    WHERE lane_id IN (SELECT lane_id FROM first_dispatch)
    ORDER BY lane_id FOR NO KEY UPDATE
), marked_lane AS (
    UPDATE dispatch_lanes l SET low_water = least(l.low_water, first_dispatch.dispatch_id), has_work = true
    FROM first_dispatch JOIN lane USING (lane_id)
    WHERE l.lane_id = first_dispatch.lane_id RETURNING l.lane_id
)
UPDATE ai_job_dispatches d SET not_before = NULL
FROM due_dispatch
WHERE {after_marked_lane} AND d.ctid = due_dispatch.place_found AND d.status = 'queued'
  -- A row that moved to another lane meanwhile waits for the next round, which lowers the mark of that lane.
  -- (PostgreSQL 18 checks the ctid again and would not find the row; older versions do find it.)
  AND d.lane_id = due_dispatch.lane_id AND d.not_before <= coalesce(:now, clock_timestamp())
RETURNING {lane_of_dispatch}, d.dispatch_id

-- name: lock_lanes
-- All lanes, or the given ones. Lanes with an enqueue in progress are skipped; the next round takes them.
SELECT lane_id FROM dispatch_lanes
WHERE lane_id = ANY (coalesce(:lane_ids::bigint[], ARRAY (SELECT lane_id FROM dispatch_lanes)))
ORDER BY lane_id FOR UPDATE SKIP LOCKED

-- name: raise_low_water
-- Also records which lanes have no work: while a lane is locked, no uncommitted row can be in it.
UPDATE dispatch_lanes l SET low_water = greatest(l.low_water, mark.value), has_work = mark.has_work
FROM (
    SELECT lane.lane_id, first.dispatch_id IS NOT NULL AS has_work, coalesce(
        first.dispatch_id,
        (SELECT coalesce(
            pg_sequence_last_value(pg_get_serial_sequence('ai_job_dispatches', 'dispatch_id')::regclass), 0))
    ) AS value
    FROM dispatch_lanes lane LEFT JOIN LATERAL (
        SELECT d.dispatch_id FROM ai_job_dispatches d
        WHERE (d.lane_id, d.dispatch_id) >= (lane.lane_id, lane.low_water) AND d.lane_id <= lane.lane_id
          AND d.status = 'queued' AND d.not_before IS NULL
        ORDER BY d.lane_id, d.dispatch_id LIMIT 1
    ) first ON true
    WHERE lane.lane_id = ANY (:lane_ids::bigint[])
) mark
WHERE l.lane_id = mark.lane_id AND (mark.value > l.low_water OR mark.has_work <> l.has_work)

-- name: lock_lanes_after
-- A page of lanes in the order of ids, without lanes that were just opened for a job that is not inserted yet.
SELECT lane_id FROM dispatch_lanes
WHERE lane_id > :after AND opened_at < clock_timestamp() - make_interval(secs => :settle_seconds::float8)
ORDER BY lane_id LIMIT :limit FOR UPDATE SKIP LOCKED

-- name: remove_lanes
-- Removes the locked lanes without a dispatch: no held one (the statement reads all work in flight), no delayed one and
-- no queued one. The first lane of a workflow stays: it shows that the workflow was used.
WITH held_lane AS MATERIALIZED (
    SELECT d.lane_id FROM ai_job_dispatches d WHERE d.status <> 'queued'
)
DELETE FROM dispatch_lanes l
WHERE l.lane_id = ANY (:lane_ids::bigint[]) AND l.lane_id NOT IN (SELECT lane_id FROM held_lane)
  AND NOT EXISTS (
    SELECT FROM ai_job_dispatches d WHERE d.lane_id = l.lane_id AND d.status = 'queued' AND d.not_before IS NOT NULL)
  AND NOT EXISTS (
    SELECT FROM ai_job_dispatches d
    WHERE (d.lane_id, d.dispatch_id) >= (l.lane_id, l.low_water) AND d.lane_id <= l.lane_id
      AND d.status = 'queued' AND d.not_before IS NULL)
  AND EXISTS (SELECT FROM dispatch_lanes o WHERE o.workflow_id = l.workflow_id AND o.lane_id < l.lane_id)

-- name: held_by_worker
SELECT dispatch_id, lease_token FROM ai_job_dispatches
WHERE status = 'leased' AND worker_id = :worker_id ORDER BY dispatch_id
