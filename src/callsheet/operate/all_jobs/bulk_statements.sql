-- database: central
-- owns: bulk_actions

-- part: action_columns
id, action, priority, filter, reason, created_by, created_at, state, stopped_by, finished_at, is_collected, total, done,
refused, refusals

-- name: create_action
-- No row: an earlier request with the same key started an action.
INSERT INTO bulk_actions (id, action, priority, filter, reason, created_by, idempotency_key)
VALUES (:id, :action, :priority, :filter, :reason, :created_by, :idempotency_key)
ON CONFLICT (created_by, idempotency_key) DO NOTHING
RETURNING {action_columns}

-- name: find_action_by_key
-- The row is locked for the standbys: see jobs/machine, find_by_idempotency_key.
SELECT {action_columns} FROM bulk_actions
WHERE created_by = :created_by AND idempotency_key = :idempotency_key
FOR NO KEY UPDATE

-- name: list_actions
SELECT {action_columns} FROM bulk_actions
WHERE id < :before ORDER BY id DESC LIMIT :limit

-- name: get_action
SELECT {action_columns} FROM bulk_actions
WHERE id = :id

-- name: stop_action
-- Jobs that are tried at this moment are counted by the process that tries them, or later by another one.
UPDATE bulk_actions SET state = 'stopped', stopped_by = :stopped_by, finished_at = clock_timestamp()
WHERE id = :id AND state = 'running'
RETURNING id

-- name: claim_action
-- The action that waits longest, unless another process works on it.
UPDATE bulk_actions SET lease_token = :token,
    lease_expires_at = clock_timestamp() + make_interval(secs => :lease_seconds)
WHERE id = (
    SELECT id FROM bulk_actions
    WHERE NOT is_counted AND (lease_expires_at IS NULL OR lease_expires_at <= clock_timestamp())
    ORDER BY lease_expires_at NULLS FIRST, id LIMIT 1
    FOR UPDATE SKIP LOCKED
)
RETURNING id, action, priority, filter, reason, created_by, created_at, is_collected

-- name: renew_lease
-- Returns no row if the action was stopped, or if another process has the lease.
UPDATE bulk_actions SET lease_expires_at = clock_timestamp() + make_interval(secs => :lease_seconds)
WHERE id = :id AND lease_token = :token AND state = 'running'
RETURNING id

-- name: release_lease
UPDATE bulk_actions SET lease_token = NULL, lease_expires_at = clock_timestamp()
WHERE id = :id AND lease_token = :token

-- name: write_counts
-- Returns no row if another process has the lease: its counts are newer.
UPDATE bulk_actions SET is_collected = is_collected OR :is_collected, total = :total, done = :done, refused = :refused,
    refusals = :refusals
WHERE id = :id AND lease_token = :token
RETURNING id

-- name: finish_action
-- The counts are final: the action was stopped or completed before, or all its jobs were tried.
UPDATE bulk_actions SET state = CASE WHEN state = 'running' THEN 'completed' ELSE state END,
    finished_at = coalesce(finished_at, clock_timestamp()), is_counted = true, lease_token = NULL,
    lease_expires_at = NULL
WHERE id = :id AND lease_token = :token AND (state <> 'running' OR :is_complete)

-- name: count_again
UPDATE bulk_actions SET is_counted = false WHERE id = :id

-- name: find_actions_to_clear
SELECT id FROM bulk_actions
WHERE is_counted AND NOT is_cleared AND finished_at < clock_timestamp() - make_interval(days => :days::integer)
ORDER BY finished_at LIMIT 1

-- name: mark_cleared
UPDATE bulk_actions SET is_cleared = true WHERE id = :id
