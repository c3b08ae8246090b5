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
        document, needs_run_prompt, needs_parent_image_path, needs_run_variables, max_children, top_k,
        requires_approval)
    SELECT :tenant_id, id, :pipeline_id, :version, position, name, slug, workflow, effect_id, digest,
        needs_run_prompt, needs_parent_image_path, needs_run_variables, max_children, top_k, requires_approval
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
-- From the newest version on, at least one, until the total size of payloads and values reaches :max_bytes.
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
WHERE total.bytes_of_newer < :max_bytes::integer
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
