-- database: central

-- name: window_of_queue
-- The newest :max_rows dispatches before :before: where a page of list_queue ends, whatever its filters are.
SELECT min(dispatch_id) AS smallest_id, count(*) AS rows
FROM (
    SELECT dispatch_id FROM ai_job_dispatches
    WHERE dispatch_id < coalesce(:before, 9223372036854775807)
    ORDER BY dispatch_id DESC LIMIT :max_rows::bigint
) newest

-- part: open_columns
d.dispatch_id, d.tenant_id, t.slug AS tenant, d.tenant_job_id AS job_id, d.charge_cycle, w.slug AS workflow, d.stage,
d.provider, d.concurrency_identifier, d.priority, d.kind, d.status, d.attempts, d.max_attempts, d.requeues, d.worker_id,
d.provider_job_id, d.last_error, d.created_at, d.queue_wait_seconds, d.not_before, d.deadline_at, d.last_leased_at,
d.lease_expires_at, d.heartbeat_at, d.run_started_at, d.cancel_requested_at

-- name: list_queue
-- Newest first, down to :from_id: no index covers the filters.
SELECT {open_columns}
FROM ai_job_dispatches d JOIN workflows w ON w.id = d.workflow_id JOIN tenants t ON t.id = d.tenant_id
WHERE d.dispatch_id >= :from_id AND d.dispatch_id < coalesce(:before, 9223372036854775807)
  AND (:status::text IS NULL OR d.status = :status) AND (:tenant_id::uuid IS NULL OR d.tenant_id = :tenant_id)
  AND (:workflow::text IS NULL OR d.workflow_id = (SELECT id FROM workflows WHERE slug = :workflow))
ORDER BY d.dispatch_id DESC LIMIT :limit

-- name: list_held
-- Leased and waiting dispatches. This reads all work in flight, as the reaper does too.
SELECT {open_columns}
FROM ai_job_dispatches d JOIN workflows w ON w.id = d.workflow_id JOIN tenants t ON t.id = d.tenant_id
WHERE d.status <> 'queued' AND d.dispatch_id < coalesce(:before, 9223372036854775807)
  AND (:status::text IS NULL OR d.status = :status) AND (:tenant_id::uuid IS NULL OR d.tenant_id = :tenant_id)
  AND (:workflow::text IS NULL OR d.workflow_id = (SELECT id FROM workflows WHERE slug = :workflow))
ORDER BY d.dispatch_id DESC LIMIT :limit

-- name: list_held_by_worker
SELECT {open_columns}
FROM ai_job_dispatches d JOIN workflows w ON w.id = d.workflow_id JOIN tenants t ON t.id = d.tenant_id
WHERE d.status <> 'queued' AND d.worker_id = :worker_id AND d.dispatch_id < coalesce(:before, 9223372036854775807)
  AND (:status::text IS NULL OR d.status = :status) AND (:tenant_id::uuid IS NULL OR d.tenant_id = :tenant_id)
  AND (:workflow::text IS NULL OR d.workflow_id = (SELECT id FROM workflows WHERE slug = :workflow))
ORDER BY d.dispatch_id DESC LIMIT :limit

-- name: window_of_history
-- Works like window_of_queue.
SELECT min(dispatch_id) AS smallest_id, count(*) AS rows
FROM (
    SELECT dispatch_id FROM dispatch_history
    WHERE dispatch_id < coalesce(:before, 9223372036854775807)
    ORDER BY dispatch_id DESC LIMIT :max_rows::bigint
) newest

-- part: finished_columns
h.dispatch_id, h.tenant_id, t.slug AS tenant, h.tenant_job_id AS job_id, h.charge_cycle, w.slug AS workflow, h.stage,
h.provider, h.concurrency_identifier, h.priority, h.kind, h.status, h.attempts, h.requeues, h.worker_id,
h.provider_job_id, h.last_error, h.created_at, h.queue_wait_seconds, h.last_leased_at, h.run_started_at, h.finished_at,
h.duration_seconds

-- name: list_finished
-- Works like list_queue.
SELECT {finished_columns}
FROM dispatch_history h JOIN workflows w ON w.id = h.workflow_id JOIN tenants t ON t.id = h.tenant_id
WHERE h.dispatch_id >= :from_id AND h.dispatch_id < coalesce(:before, 9223372036854775807)
  AND (:worker_id::text IS NULL OR h.worker_id = :worker_id)
  AND (:status::text IS NULL OR h.status = :status) AND (:tenant_id::uuid IS NULL OR h.tenant_id = :tenant_id)
  AND (:workflow::text IS NULL OR h.workflow_id = (SELECT id FROM workflows WHERE slug = :workflow))
ORDER BY h.dispatch_id DESC LIMIT :limit

-- name: get_open
SELECT {open_columns}
FROM ai_job_dispatches d JOIN workflows w ON w.id = d.workflow_id JOIN tenants t ON t.id = d.tenant_id
WHERE d.dispatch_id = :dispatch_id

-- name: get_finished
SELECT {finished_columns}
FROM dispatch_history h JOIN workflows w ON w.id = h.workflow_id JOIN tenants t ON t.id = h.tenant_id
WHERE h.dispatch_id = :dispatch_id

-- name: dispatch_of_job
-- The id of the dispatch of a job in a cycle, open or finished.
SELECT coalesce(
    (SELECT d.dispatch_id FROM ai_job_dispatches d
     WHERE d.tenant_id = :tenant_id AND d.tenant_job_id = :job_id AND d.charge_cycle = :charge_cycle),
    (SELECT h.dispatch_id FROM dispatch_history h
     WHERE h.tenant_id = :tenant_id AND h.tenant_job_id = :job_id AND h.charge_cycle = :charge_cycle))

-- name: change_priority
-- Moves a dispatch to another lane of the same route. Only queued rows: a leased row is requeued into the lane it was
-- leased from. The new lane's mark is lowered first and unconditionally, as in requeue. So the statement waits for a
-- concurrent raise of the mark, and the row can be found as soon as the move is committed.
WITH lane AS MATERIALIZED (
    SELECT l.lane_id FROM ai_job_dispatches d JOIN dispatch_lanes own ON own.lane_id = d.lane_id JOIN dispatch_lanes l
        ON l.workflow_id = d.workflow_id AND l.stage = d.stage AND l.provider = d.provider
        AND l.concurrency_identifier = d.concurrency_identifier AND l.priority = :priority
        AND l.tenant_id = own.tenant_id AND l.user_id = own.user_id
    WHERE d.dispatch_id = :dispatch_id
    FOR NO KEY UPDATE OF l
), marked_lane AS (
    UPDATE dispatch_lanes l SET low_water = least(l.low_water, :dispatch_id::bigint), has_work = true
    FROM lane
    WHERE l.lane_id = lane.lane_id
    RETURNING l.lane_id, l.priority, l.tenant_id, l.user_id
), waiting_dispatch AS MATERIALIZED (
    SELECT d.dispatch_id, d.priority AS old_priority, marked_lane.lane_id, marked_lane.priority,
        marked_lane.tenant_id AS lane_tenant_id, marked_lane.user_id AS lane_user_id
    FROM marked_lane CROSS JOIN ai_job_dispatches d
    WHERE d.dispatch_id = :dispatch_id AND d.status = 'queued'
    FOR NO KEY UPDATE OF d
)
UPDATE ai_job_dispatches d SET lane_id = waiting_dispatch.lane_id, priority = waiting_dispatch.priority
FROM waiting_dispatch
WHERE d.dispatch_id = waiting_dispatch.dispatch_id
RETURNING d.lane_id, d.workflow_id, d.stage, d.provider, d.concurrency_identifier, d.priority,
    waiting_dispatch.lane_tenant_id, waiting_dispatch.lane_user_id, d.dispatch_id, d.tenant_id,
    d.tenant_job_id AS job_id, d.charge_cycle, d.not_before, waiting_dispatch.old_priority

-- name: lane_of_queued
-- The lane of a dispatch, to open one for another priority.
SELECT l.workflow_id, l.stage, l.provider, l.concurrency_identifier, l.priority, l.tenant_id, l.user_id
FROM ai_job_dispatches d JOIN dispatch_lanes l ON l.lane_id = d.lane_id
WHERE d.dispatch_id = :dispatch_id AND d.status = 'queued'

-- name: list_limits
-- Every identifier that has a limit or lanes, and how many slots are in use.
SELECT i.identifier, c.max_concurrent, (
    SELECT count(*) FROM ai_job_dispatches d
    WHERE d.concurrency_identifier = i.identifier AND d.concurrency_identifier <> '' AND d.status <> 'queued') AS in_use
FROM (
    SELECT identifier FROM concurrency_limits
    UNION SELECT concurrency_identifier FROM dispatch_lanes WHERE concurrency_identifier <> ''
) i LEFT JOIN concurrency_limits c ON c.identifier = i.identifier
WHERE i.identifier > coalesce(:after, '')
ORDER BY i.identifier LIMIT :limit

-- name: set_limit
INSERT INTO concurrency_limits (identifier, max_concurrent) VALUES (:identifier, :max_concurrent)
ON CONFLICT (identifier) DO UPDATE SET max_concurrent = excluded.max_concurrent, is_declared = false

-- name: declare_limit
-- Sets the limit that a provider declares. Changes nothing if an admin has set a limit or the value is the same.
INSERT INTO concurrency_limits (identifier, max_concurrent, is_declared)
SELECT :identifier::text, :max_concurrent::integer, true
WHERE NOT EXISTS (
    SELECT FROM concurrency_limits
    WHERE identifier = :identifier AND (NOT is_declared OR max_concurrent = :max_concurrent))
ON CONFLICT (identifier) DO UPDATE SET max_concurrent = excluded.max_concurrent
WHERE concurrency_limits.is_declared
RETURNING identifier

-- name: routes_of_identifier
SELECT DISTINCT workflow_id, stage, provider FROM dispatch_lanes WHERE concurrency_identifier = :identifier

-- name: remove_limit
DELETE FROM concurrency_limits WHERE identifier = :identifier

-- name: weight_of_tenant
SELECT t.slug AS tenant, t.weight, coalesce(t.max_running, :max_running::integer) AS max_running,
    coalesce(t.max_running_per_user, :max_running_per_user::integer) AS max_running_per_user,
    (SELECT count(*) FROM ai_job_dispatches d WHERE d.tenant_id = t.id AND d.status <> 'queued') AS running
FROM tenants t
WHERE t.id = :tenant_id

-- name: lock_weight
-- The lock makes the second of two concurrent changes see the first.
SELECT weight, max_running, max_running_per_user FROM tenants WHERE id = :tenant_id FOR NO KEY UPDATE

-- name: set_weight
SELECT tenant_set_weight(:tenant_id, :weight, :max_running, :max_running_per_user)
