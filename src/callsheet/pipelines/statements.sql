-- database: pool
-- owns: branch_kills, candidate_slots, candidates, pipeline_runs, pipeline_steps, pipelines, run_replays
-- owns: step_approvals, step_documents, votes
-- The tenant is never NULL. IS NOT DISTINCT FROM compares it where open slots, and active candidates of a run, are
-- found: that fits no index, so the index of the other key is used. With =, a plan that was made while the table was
-- empty used an index of the tenant and read all its rows; test_pipeline_plans.py fails then.

-- name: create_pipeline
INSERT INTO pipelines (tenant_id, id, user_id, slug, name, description)
VALUES (:tenant_id, :id, :user_id, :slug, :name, :description)
ON CONFLICT (user_id, slug, tenant_id) DO NOTHING
RETURNING id, slug, name, description, version, created_at, updated_at

-- name: count_pipelines
SELECT count(*) FROM pipelines WHERE user_id = :user_id AND tenant_id = :tenant_id

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

-- name: add_steps
-- `bytes` of a step counts once for each document. `row_bytes` counts for each step, because every version has rows.
WITH step AS MATERIALIZED (
    SELECT s.id, s.position, s.name, s.slug, s.workflow, s.effect_id, s.payload, s."values", s.needs_run_prompt,
        s.needs_parent_image_path, s.needs_run_variables, s.max_children, s.top_k, s.requires_approval,
        decode(s.digest, 'hex') AS digest, s.bytes
    FROM jsonb_to_recordset(:steps::jsonb) AS s (id uuid, position integer, name text, slug text, workflow text,
        effect_id uuid, payload jsonb, "values" jsonb, needs_run_prompt boolean, needs_parent_image_path boolean,
        needs_run_variables boolean, max_children integer, top_k integer, requires_approval boolean, digest text,
        bytes bigint)
), new_document AS (
    INSERT INTO step_documents (tenant_id, pipeline_id, digest, payload, "values")
    SELECT DISTINCT ON (digest) :tenant_id::uuid, :pipeline_id::uuid, digest, payload, "values" FROM step
    ON CONFLICT DO NOTHING
    RETURNING digest
), new_step AS (
    INSERT INTO pipeline_steps (tenant_id, id, pipeline_id, version, position, name, slug, workflow, effect_id,
        payload, document, needs_run_prompt, needs_parent_image_path, needs_run_variables, max_children, top_k,
        requires_approval)
    SELECT :tenant_id, id, :pipeline_id, :version, position, name, slug, workflow, effect_id,
        -- The row of an actor's step has a payload, and no effect.
        CASE WHEN payload IS NOT NULL THEN '{}'::jsonb END, digest, needs_run_prompt, needs_parent_image_path,
        needs_run_variables, max_children, top_k, requires_approval
    FROM step
)
UPDATE pipelines SET counted_bytes = counted_bytes + (SELECT count(*) FROM step) * :row_bytes::bigint + (
    SELECT coalesce(sum(document.bytes), 0) FROM (
        SELECT DISTINCT ON (digest) bytes FROM step WHERE digest IN (SELECT digest FROM new_document)
    ) document)
WHERE tenant_id = :tenant_id AND id = :pipeline_id

-- name: lock_pipeline
SELECT id, slug, name, description, version, created_at, updated_at FROM pipelines
WHERE tenant_id = :tenant_id AND id = :id AND user_id = :user_id FOR UPDATE

-- name: update_pipeline
UPDATE pipelines SET name = :name, description = :description, version = :version, updated_at = clock_timestamp()
WHERE tenant_id = :tenant_id AND id = :id
RETURNING id, slug, name, description, version, created_at, updated_at

-- name: get_pipeline
SELECT id, slug, name, description, version, created_at, updated_at FROM pipelines
WHERE tenant_id = :tenant_id AND id = :id AND user_id = :user_id

-- name: find_pipeline
SELECT id FROM pipelines WHERE user_id = :user_id AND slug = :slug AND tenant_id = :tenant_id

-- name: list_pipelines
-- The inner query reads the page by its index; steps and runs are read only for the pipelines of the page.
SELECT p.id, p.slug, p.name, p.description, p.version, p.created_at, p.updated_at, steps.chain, newest.last_run
FROM (
    SELECT id, slug, name, description, version, created_at, updated_at FROM pipelines
    WHERE user_id = :user_id AND tenant_id = :tenant_id
      AND id < coalesce(:before, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
    ORDER BY id DESC LIMIT :limit
) p
CROSS JOIN LATERAL (
    SELECT jsonb_agg(jsonb_build_object('position', s.position, 'name', s.name, 'workflow', s.workflow,
        'max_children', s.max_children, 'top_k', s.top_k, 'requires_approval', s.requires_approval)
        ORDER BY s.position) AS chain
    FROM pipeline_steps s
    WHERE s.pipeline_id = p.id AND s.version = p.version AND s.tenant_id = :tenant_id
) steps
LEFT JOIN LATERAL (
    SELECT jsonb_build_object('id', r.id, 'name', r.name, 'status', r.status, 'reason', r.reason,
        'candidates', r.candidates, 'created_at', r.created_at) AS last_run
    FROM pipeline_runs r
    WHERE r.pipeline_id = p.id AND r.tenant_id = :tenant_id AND r.deleted_at IS NULL
    ORDER BY r.id DESC LIMIT 1
) newest ON true
ORDER BY p.id DESC

-- name: steps_of_versions
-- From the newest version on, at least one, until the total size of payloads and values reaches :most_bytes.
WITH version_sizes AS (
    SELECT version, sum(coalesce(octet_length(payload::text), 0) + octet_length("values"::text)) AS bytes
    FROM declared_steps
    WHERE pipeline_id = :pipeline_id AND version >= :oldest AND version <= :newest AND tenant_id = :tenant_id
    GROUP BY version
), version_totals AS (
    SELECT version, sum(bytes) OVER (ORDER BY version DESC) - bytes AS bytes_of_newer FROM version_sizes
)
SELECT s.version, s.id, s.position, s.name, s.slug, s.workflow, s.effect_id, s.payload, s."values", s.needs_run_prompt,
    s.needs_parent_image_path, s.needs_run_variables, s.max_children, s.top_k, s.requires_approval
FROM version_totals total
JOIN declared_steps s ON s.pipeline_id = :pipeline_id AND s.version = total.version AND s.tenant_id = :tenant_id
WHERE total.bytes_of_newer < :most_bytes::integer
ORDER BY s.version DESC, s.position

-- name: steps_of_pipeline
SELECT id, position, name, slug, workflow, effect_id, payload, "values", needs_run_prompt, needs_parent_image_path,
    needs_run_variables, max_children, top_k, requires_approval
FROM declared_steps
WHERE pipeline_id = :pipeline_id AND version = :version AND tenant_id = :tenant_id
ORDER BY position

-- name: pipeline_has_runs
SELECT EXISTS (
    SELECT FROM pipeline_runs WHERE pipeline_id = :id AND tenant_id = :tenant_id LIMIT 1)

-- name: delete_pipeline
DELETE FROM pipelines WHERE tenant_id = :tenant_id AND id = :id

-- name: lock_wallet
-- Opens the wallet on first use: a run belongs to the user who pays for it.
SELECT wallet_lock(:tenant_id, :user_id)

-- name: hold_pipeline
-- Prevents that the pipeline is deleted before its run is written.
SELECT id FROM pipelines WHERE tenant_id = :tenant_id AND id = :id FOR KEY SHARE

-- part: run_columns
tenant_id, id, pipeline_id, pipeline_version, name, status, reason, reason_detail, strategy, target_folder, prompt,
variables, seed, max_children, target_leaves, concurrency, budget, spent, draws, candidates, base_failures,
dead_branches, request_hash, created_at, updated_at, ended_at

-- name: create_run
INSERT INTO pipeline_runs (tenant_id, id, user_id, pipeline_id, pipeline_version, steps, name, target_folder, prompt,
    variables, strategy, seed, max_children, target_leaves, concurrency, budget, strikes, idempotency_key, request_hash,
    counted_bytes)
VALUES (:tenant_id, :id, :user_id, :pipeline_id, :pipeline_version, :steps, :name, :target_folder, :prompt, :variables,
    :strategy, :seed, :max_children, :target_leaves, :concurrency, :budget, :strikes, :idempotency_key, :request_hash,
    :row_bytes::bigint + pg_column_size(:variables::jsonb) + coalesce(octet_length(:prompt), 0))
ON CONFLICT (target_folder, tenant_id) DO NOTHING
RETURNING {run_columns}

-- name: run_of_key
-- Equality is written as a comparison of rows: see jobs/statements.sql, find_by_idempotency_key.
SELECT {run_columns} FROM pipeline_runs
WHERE (idempotency_key, tenant_id, user_id) >= (:idempotency_key, :tenant_id, :user_id)
  AND (idempotency_key, tenant_id, user_id) <= (:idempotency_key, :tenant_id, :user_id)

-- name: list_active_runs
SELECT id FROM pipeline_runs
WHERE user_id = :user_id AND status = 'active' AND tenant_id = :tenant_id

-- name: active_runs_of_user
-- Counts up to the limit only.
SELECT count(*) FROM (
    SELECT FROM pipeline_runs
    WHERE user_id = :user_id AND status = 'active' AND tenant_id = :tenant_id LIMIT :most
) active

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
ORDER BY id DESC LIMIT :limit

-- name: list_runs_of_pipeline
SELECT {run_columns} FROM pipeline_runs
WHERE pipeline_id = :pipeline_id AND tenant_id = :tenant_id AND user_id = :user_id
  AND id < coalesce(:before, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
  AND (:status::text IS NULL OR status = :status) AND deleted_at IS NULL
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
-- `most`. Each row is found by its key.
SELECT run.id, pipeline.slug AS pipeline_slug, pipeline.name AS pipeline_name, (
    SELECT count(*) FROM (
        SELECT FROM candidates c
        WHERE c.run_id = run.id AND c.position = run.steps AND c.status = 'active'
          AND c.tenant_id = :tenant_id
        ORDER BY c.elo DESC, c.number LIMIT least(run.target_leaves, :most::integer)
    ) leaf
) AS leaves
FROM unnest(:run_ids::uuid[]) AS wanted (id) CROSS JOIN LATERAL (
    SELECT id, pipeline_id, steps, target_leaves FROM pipeline_runs
    WHERE tenant_id = :tenant_id AND id = wanted.id LIMIT 1
) run CROSS JOIN LATERAL (
    SELECT slug, name FROM pipelines WHERE tenant_id = :tenant_id AND id = run.pipeline_id LIMIT 1
) pipeline
