-- database: pool
-- The tenant is never NULL. IS NOT DISTINCT FROM compares it where children, slots and numbered candidates are found:
-- that fits no index, so the index of the other key is used. With =, plans used an index of the tenant or of steps, and
-- read all its rows; test_candidate_plans.py fails then.
-- The tenant is never NULL. IS NOT DISTINCT FROM compares it where open slots, and active candidates of a run, are
-- found: that fits no index, so the index of the other key is used. With =, a plan that was made while the table was
-- empty used an index of the tenant and read all its rows; test_pipeline_plans.py fails then.
-- Reads for the pages of a run. They use ordinary connections, except where a comment says otherwise.

-- name: runs_in_numbers
-- Settled slots are read by time, up to a limit. Open slots, active runs and due thumbnails have an index each.
WITH settled_slots AS MATERIALIZED (
    SELECT status, settled_at, extract(epoch FROM settled_at - created_at)::float8 AS seconds FROM candidate_slots
    WHERE settled_at IS NOT NULL AND settled_at > clock_timestamp() - make_interval(secs => :window_seconds::integer)
    ORDER BY settled_at DESC LIMIT :max_settled
), active_runs AS MATERIALIZED (
    SELECT reason FROM pipeline_runs WHERE status = 'active' LIMIT :max_rows
), open_slots AS MATERIALIZED (
    SELECT created_at FROM candidate_slots WHERE status = 'open' LIMIT :max_open
), due_thumbnail AS MATERIALIZED (
    SELECT FROM candidates WHERE thumbnail_due_at IS NOT NULL ORDER BY thumbnail_due_at LIMIT :max_rows
)
SELECT
    (SELECT count(*) FROM active_runs) AS active_runs,
    (SELECT count(*) FROM active_runs WHERE reason IS NOT NULL) AS blocked_runs,
    (SELECT count(*) FROM active_runs WHERE reason = 'internal_error') AS broken_runs,
    (SELECT count(*) FROM open_slots) AS jobs_under_way,
    (SELECT extract(epoch FROM clock_timestamp() - min(created_at))::float8 FROM open_slots) AS oldest_job_seconds,
    count(*) FILTER (WHERE status = 'made') AS completed, count(*) FILTER (WHERE status = 'failed') AS failed,
    count(*) FILTER (WHERE status = 'canceled') AS canceled,
    avg(seconds) FILTER (WHERE status = 'made') AS average_seconds,
    percentile_disc(0.95) WITHIN GROUP (ORDER BY seconds) FILTER (WHERE status = 'made') AS p95_seconds,
    (SELECT count(*) FROM due_thumbnail) AS due_thumbnails,
    extract(epoch FROM clock_timestamp() - min(settled_at))::float8 AS settled_seconds
FROM settled_slots

-- name: stopped_runs
-- Runs that stopped lately because their jobs failed, by an index that has only such runs.
SELECT id, tenant_id, user_id, name, reason, reason_detail, due_at AS stopped_at FROM pipeline_runs
WHERE status = 'paused' AND reason IN ('base_failed', 'branches_failed')
  AND due_at > (SELECT clock_timestamp() - make_interval(hours => :hours::integer))
ORDER BY due_at DESC LIMIT :limit

-- name: waiting_for_room
-- Which of these runs wait only because the runs of their tenant have reached the tenant's limit of active jobs.
SELECT run.id FROM unnest(:run_ids::uuid[]) AS wanted (id) CROSS JOIN LATERAL (
    SELECT r.id FROM pipeline_runs r
    WHERE r.tenant_id = :tenant_id AND r.id = wanted.id AND r.status = 'active' AND r.reason IS NULL
      AND r.due_at <= clock_timestamp() AND (
          SELECT count(*) FROM candidate_slots o WHERE o.run_id = r.id AND o.status = 'open'
      ) < least(:per_run::integer, r.concurrency)
    LIMIT 1
) run
WHERE (
    SELECT count(*) FROM (
        SELECT FROM candidate_slots WHERE tenant_id = :tenant_id AND status = 'open' LIMIT :in_total
    ) slot
) >= :in_total

-- name: hold_pipeline
-- Prevents that the pipeline is deleted before its run is written.
SELECT id FROM pipelines WHERE tenant_id = :tenant_id AND id = :id FOR KEY SHARE

-- part: run_columns
tenant_id, id, pipeline_id, pipeline_version, name, status, reason, reason_detail, strategy, target_folder, prompt,
variables, seed, max_children, target_leaves, concurrency, budget, spent, draws, candidates, base_failures,
dead_branches, idempotency_key, request_hash, request_fields, client_reference, metadata, created_at,
updated_at, ended_at

-- part: run_bytes
-- What counts in the quota of the user in the database.
:row_bytes::bigint + pg_column_size(:variables::jsonb) + coalesce(octet_length(:prompt), 0)

-- name: create_run
INSERT INTO pipeline_runs (tenant_id, id, user_id, pipeline_id, pipeline_version, steps, name, target_folder, prompt,
    variables, strategy, seed, max_children, target_leaves, concurrency, budget, strikes, idempotency_key, request_hash,
    request_fields, client_reference, metadata, key_id, counted_bytes)
VALUES (:tenant_id, :id, :user_id, :pipeline_id, :pipeline_version, :steps, :name, :target_folder, :prompt, :variables,
    :strategy, :seed, :max_children, :target_leaves, :concurrency, :budget, :strikes, :idempotency_key, :request_hash,
    :request_fields, :client_reference, :metadata, :key_id,
    {run_bytes})
ON CONFLICT (target_folder, tenant_id) DO NOTHING
RETURNING {run_columns}

-- name: run_of_key
-- Equality is written as a comparison of rows, and the row is locked: see jobs/machine, find_by_idempotency_key.
SELECT {run_columns} FROM pipeline_runs
WHERE {has_key}
FOR KEY SHARE

-- part: has_key
(idempotency_key, tenant_id, user_id) >= (:idempotency_key, :tenant_id, :user_id)
  AND (idempotency_key, tenant_id, user_id) <= (:idempotency_key, :tenant_id, :user_id)

-- name: list_runs_of_key
-- There is at most one.
SELECT {run_columns} FROM pipeline_runs
WHERE {has_key} AND id < coalesce(:before, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid) AND deleted_at IS NULL
  AND (:pipeline_id::uuid IS NULL OR pipeline_id = :pipeline_id)
  AND (:status::text IS NULL OR status = :status)
  AND (:client_reference::text IS NULL OR client_reference = :client_reference)
  AND (:metadata::jsonb IS NULL OR metadata @> :metadata)
LIMIT :limit

-- name: list_active_runs
SELECT id FROM pipeline_runs
WHERE user_id = :user_id AND status = 'active' AND tenant_id = :tenant_id

-- part: active_runs
-- Counts up to the limit only.
SELECT count(*) FROM (
    SELECT FROM pipeline_runs
    WHERE user_id = :user_id AND status = 'active' AND tenant_id = :tenant_id LIMIT :max_rows
) active

-- name: active_runs_of_user
{active_runs}

-- name: quote_run
-- Locks and writes nothing, so a run that is started a moment later may find something else.
SELECT balance, paid_by_tenant,
    ({active_runs}) AS active,
    EXISTS (SELECT FROM pipeline_runs WHERE target_folder = :target_folder AND tenant_id = :tenant_id)
        AS folder_is_taken,
    coalesce((SELECT bytes FROM database_usage WHERE tenant_id = :tenant_id AND user_id = :user_id), 0)
        + {run_bytes} AS database_bytes
FROM payer_balance(:tenant_id, :user_id)

-- name: get_run
SELECT {run_columns} FROM pipeline_runs
WHERE tenant_id = :tenant_id AND id = :id AND user_id = :user_id AND deleted_at IS NULL

-- name: lock_run
SELECT {run_columns} FROM pipeline_runs
WHERE tenant_id = :tenant_id AND id = :id AND user_id = :user_id AND deleted_at IS NULL
FOR NO KEY UPDATE

-- name: lock_run_to_delete
-- Also a run that was deleted a moment ago: a repeated request has the same outcome.
SELECT {run_columns} FROM pipeline_runs
WHERE tenant_id = :tenant_id AND id = :id AND user_id = :user_id
FOR NO KEY UPDATE

-- name: list_runs
SELECT {run_columns} FROM pipeline_runs
WHERE user_id = :user_id AND tenant_id = :tenant_id
  AND id < coalesce(:before, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
  AND (:status::text IS NULL OR status = :status) AND deleted_at IS NULL
  AND (:client_reference::text IS NULL OR client_reference = :client_reference)
  AND (:metadata::jsonb IS NULL OR metadata @> :metadata)
ORDER BY id DESC LIMIT :limit

-- name: list_runs_of_pipeline
SELECT {run_columns} FROM pipeline_runs
WHERE pipeline_id = :pipeline_id AND tenant_id = :tenant_id AND user_id = :user_id
  AND id < coalesce(:before, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
  AND (:status::text IS NULL OR status = :status) AND deleted_at IS NULL
  AND (:client_reference::text IS NULL OR client_reference = :client_reference)
  AND (:metadata::jsonb IS NULL OR metadata @> :metadata)
ORDER BY id DESC LIMIT :limit

-- name: change_run
UPDATE pipeline_runs SET name = :name, budget = :budget, target_leaves = :target_leaves, status = :status,
    reason = :reason, reason_detail = :reason_detail, base_failures = :base_failures, dead_branches = :dead_branches,
    due_at = clock_timestamp(), updated_at = clock_timestamp(),
    ended_at = CASE WHEN :status IN ('completed', 'canceled') THEN coalesce(ended_at, clock_timestamp()) END
WHERE tenant_id = :tenant_id AND id = :id
RETURNING {run_columns}

-- name: forgive_branches
-- The run is locked. Candidates are locked in key order, as votes do. The user has resumed the run: candidates that
-- failed too often, without a child, may be parents again.
WITH locked_candidate AS MATERIALIZED (
    SELECT id FROM candidates
    WHERE run_id = :run_id AND tenant_id IS NOT DISTINCT FROM :tenant_id AND status = 'active'
      AND candidate_has_failed(candidates) AND child_count = 0
    ORDER BY id FOR NO KEY UPDATE
)
UPDATE candidates SET failure_count = 0
WHERE tenant_id = :tenant_id AND id = ANY (ARRAY (SELECT id FROM locked_candidate))

-- name: counts_of_run
-- For the API only: the scheduler never counts candidates. Two indexes have all columns, so the rows are not read.
SELECT position, count(*) AS candidates, count(*) FILTER (WHERE is_active) AS active FROM (
    (SELECT position, true AS is_active FROM candidates
     WHERE run_id = :run_id AND status = 'active' AND tenant_id = :tenant_id
     ORDER BY run_id, position, elo DESC, number)
    UNION ALL
    SELECT position, false FROM candidates
    WHERE run_id = :run_id AND status = 'rejected' AND tenant_id = :tenant_id
) counted
GROUP BY position

-- name: in_flight_of_run
SELECT position, count(*) AS in_flight FROM candidate_slots
WHERE run_id = :run_id AND status = 'open' AND tenant_id IS NOT DISTINCT FROM :tenant_id
GROUP BY position

-- name: approvals_of_run
SELECT step_id FROM step_approvals WHERE tenant_id = :tenant_id AND run_id = :run_id

-- name: open_jobs_of_run
SELECT job_id FROM candidate_slots
WHERE run_id = :run_id AND status = 'open' AND tenant_id IS NOT DISTINCT FROM :tenant_id

-- name: list_tree
-- In the order of creation: a parent comes before its children. The reason of a rejection is found as `rejection_of`
-- does it.
SELECT id, number, parent_id, step_id, position, status,
    CASE WHEN rejected_with IS NULL THEN NULL WHEN rejected_with <> id THEN 'killed_with_ancestor'
        WHEN rejected_by IS NULL THEN 'surplus' ELSE 'killed' END AS rejection,
    elo, votes, child_count, in_flight, max_children, failure_count
FROM candidates
WHERE run_id = :run_id AND tenant_id = :tenant_id AND number > :after
ORDER BY number LIMIT :limit

-- name: progress_of_runs
-- The pipeline of each run, and its leaves: active candidates of the last step, counted up to the run's target and to
-- `:max_rows`. Each row is found by its key.
SELECT run.id, pipeline.slug AS pipeline_slug, pipeline.name AS pipeline_name, (
    SELECT count(*) FROM (
        SELECT FROM candidates c
        WHERE c.run_id = run.id AND c.position = run.steps AND c.status = 'active'
          AND c.tenant_id = :tenant_id
        ORDER BY c.elo DESC, c.number LIMIT least(run.target_leaves, :max_rows::integer)
    ) leaf
) AS leaves
FROM unnest(:run_ids::uuid[]) AS wanted (id) CROSS JOIN LATERAL (
    SELECT id, pipeline_id, steps, target_leaves FROM pipeline_runs
    WHERE tenant_id = :tenant_id AND id = wanted.id LIMIT 1
) run CROSS JOIN LATERAL (
    SELECT slug, name FROM pipelines WHERE tenant_id = :tenant_id AND id = run.pipeline_id LIMIT 1
) pipeline

-- name: branch_size
-- Number of candidates that a kill would reject, or that a restore would restore. Counts up to `:max_rows` candidates.
WITH RECURSIVE branch AS (
    SELECT id, status, rejected_with FROM candidates WHERE tenant_id = :tenant_id AND id = :candidate_id
    UNION ALL
    SELECT child.id, child.status, child.rejected_with FROM branch CROSS JOIN LATERAL (
        SELECT id, status, rejected_with FROM candidates
        WHERE parent_id = branch.id AND tenant_id = :tenant_id
    ) child
)
SELECT count(*) FILTER (WHERE status = 'active') AS rejects,
    count(*) FILTER (WHERE rejected_with = :candidate_id) AS restores, count(*) > :max_rows AS has_more
FROM (SELECT status, rejected_with FROM branch LIMIT :max_rows + 1) counted

-- name: branch_jobs
-- Active jobs that a kill of the candidate would cancel, and the tokens that come back. A run has few open slots, so
-- each is followed up to its base. The share that a running job keeps is computed as a cancel computes it.
WITH RECURSIVE ancestry AS (
    SELECT s.job_id, s.parent_id AS ancestor_id FROM candidate_slots s
    WHERE s.run_id = :run_id AND s.status = 'open' AND s.tenant_id = :tenant_id AND s.parent_id IS NOT NULL
    UNION ALL
    SELECT ancestry.job_id, parent.parent_id FROM ancestry CROSS JOIN LATERAL (
        SELECT parent_id FROM candidates WHERE tenant_id = :tenant_id AND id = ancestry.ancestor_id LIMIT 1
    ) parent
    WHERE ancestry.ancestor_id <> :candidate_id AND parent.parent_id IS NOT NULL
)
SELECT count(*) AS jobs, coalesce(sum(job.cost - floor(job.cost * job.spent)), 0)::bigint AS refund
FROM ancestry CROSS JOIN LATERAL (
    SELECT cost, CASE WHEN status = 'processing' AND refund_on_cancel = 'unspent'
        THEN job_spent(tenant_id, id, charge_cycle, lease_seq, started_at, run_limit_seconds, actor IS NOT NULL)
        ELSE 0 END AS spent
    FROM ai_jobs
    WHERE tenant_id = :tenant_id AND id = ancestry.job_id AND status IN ('pending', 'queued', 'processing') LIMIT 1
) job
WHERE ancestry.ancestor_id = :candidate_id

-- name: gates_of_run
-- Steps that need an approval, with the candidates that may get children, and how many children these may get. Counts
-- up to `:max_rows` candidates, or as many as may become parents.
SELECT s.id AS step_id, approval.approved_at, waiting.parents, waiting.children
FROM pipeline_runs r
JOIN pipeline_steps s ON s.pipeline_id = r.pipeline_id AND s.version = r.pipeline_version
    AND s.tenant_id = r.tenant_id AND s.requires_approval
LEFT JOIN step_approvals approval
    ON approval.tenant_id = r.tenant_id AND approval.run_id = r.id AND approval.step_id = s.id
CROSS JOIN LATERAL (
    SELECT count(*) AS parents, coalesce(sum(places), 0) AS children FROM (
        SELECT c.max_children - c.child_count - c.in_flight AS places FROM candidates c
        WHERE c.run_id = r.id AND c.position = s.position AND c.tenant_id = r.tenant_id AND candidate_is_eligible(c)
        ORDER BY c.number
        LIMIT least(:max_rows::integer, CASE WHEN r.strategy = 'breadth_first' THEN s.top_k END)
    ) eligible
) waiting
WHERE r.tenant_id = :tenant_id AND r.id = :run_id
ORDER BY s.position

-- name: spending_bounds
-- From the start of the run to its end, or until now, and the tokens that its active jobs hold.
SELECT r.created_at AS since, coalesce(r.ended_at, clock_timestamp()) AS until, r.budget, r.spent,
    (SELECT coalesce(sum(cost), 0)::bigint FROM (
         SELECT cost FROM candidate_slots WHERE run_id = r.id AND status = 'open' AND tenant_id = r.tenant_id
         UNION ALL
         SELECT cost FROM run_replays WHERE run_id = r.id AND settled_at IS NULL AND tenant_id = r.tenant_id
     ) open_job) AS held
FROM pipeline_runs r
WHERE r.tenant_id = :tenant_id AND r.id = :run_id AND r.user_id = :user_id

-- name: spending_of_run
-- Tokens that were used up, by step and by part of the time. A job that failed or was canceled may have kept some. A
-- replay belongs to the step of its candidate.
SELECT s.position,
    least(floor(extract(epoch FROM s.settled_at - :since) / :seconds::float8)::integer, :parts::integer - 1) AS part,
    sum(s.tokens)::bigint AS tokens, count(*) FILTER (WHERE s.is_made) AS jobs
FROM (
    SELECT position, settled_at, status = 'made' AS is_made,
        CASE WHEN status = 'made' THEN cost ELSE cost - wallet_refunded(tenant_id, job_id, 1) END AS tokens
    FROM candidate_slots
    WHERE tenant_id = :tenant_id AND run_id = :run_id AND settled_at IS NOT NULL
    UNION ALL
    SELECT r.position, r.settled_at, job.is_made, r.cost - wallet_refunded(r.tenant_id, r.job_id, r.charge_cycle)
    FROM run_replays r CROSS JOIN LATERAL (
        SELECT status = 'completed' AND charge_cycle = r.charge_cycle AS is_made FROM ai_jobs
        WHERE tenant_id = r.tenant_id AND id = r.job_id LIMIT 1
    ) job
    WHERE r.tenant_id = :tenant_id AND r.run_id = :run_id AND r.settled_at IS NOT NULL
) s
GROUP BY s.position, part
ORDER BY s.position, part
