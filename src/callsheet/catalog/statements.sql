-- database: central
-- owns: catalog_assets, effects, workflow_versions, workflows

-- part: workflow_columns
id, slug, name, description, is_active, comfyui_workflow_path, properties, output_node_id, output_extension,
output_mime_type, keep_metadata, run_limit_seconds, lease_seconds, max_attempts, refund_on_cancel, requirements,
required, created_at, updated_at

-- name: create_workflow
INSERT INTO workflows (slug, name, description, is_active, comfyui_workflow_path, properties, output_node_id,
    output_extension, output_mime_type, keep_metadata, run_limit_seconds, lease_seconds, max_attempts,
    refund_on_cancel, requirements, required, models)
VALUES (:slug, :name, :description, :is_active, :comfyui_workflow_path, :properties, :output_node_id,
    :output_extension, :output_mime_type, :keep_metadata, :run_limit_seconds, :lease_seconds, :max_attempts,
    :refund_on_cancel, :requirements, :required, :models)
ON CONFLICT (slug) DO NOTHING
RETURNING {workflow_columns}

-- name: find_workflow
SELECT {workflow_columns} FROM workflows
WHERE slug = :slug

-- name: list_workflows
SELECT {workflow_columns} FROM workflows
WHERE id < coalesce(:before, 9223372036854775807) AND (:is_active::boolean IS NULL OR is_active = :is_active)
  AND (:with_actors::boolean OR NOT starts_with(slug, 'actor:'))
ORDER BY id DESC LIMIT :limit

-- name: lock_workflow
-- Another change of the workflow waits, and so does an effect that is checked against the workflow. Jobs do not wait.
SELECT updated_at FROM workflows WHERE id = :id FOR NO KEY UPDATE

-- name: update_workflow
UPDATE workflows SET name = :name, description = :description, is_active = :is_active,
    comfyui_workflow_path = :comfyui_workflow_path, properties = :properties, output_node_id = :output_node_id,
    output_extension = :output_extension, output_mime_type = :output_mime_type, keep_metadata = :keep_metadata,
    run_limit_seconds = :run_limit_seconds, lease_seconds = :lease_seconds, max_attempts = :max_attempts,
    refund_on_cancel = :refund_on_cancel, requirements = :requirements, required = :required,
    models = :models,
    updated_at = clock_timestamp()
WHERE id = :id
RETURNING {workflow_columns}

-- name: keep_version
-- Writes what the workflow is now as its next version, if anything differs from its last version.
INSERT INTO workflow_versions (workflow_id, version, actor, created_at, name, description, comfyui_workflow_path,
    properties, output_node_id, output_extension, output_mime_type, keep_metadata, run_limit_seconds, lease_seconds,
    max_attempts, refund_on_cancel, requirements)
SELECT w.id, coalesce(last.version, 0) + 1, :actor, w.updated_at, w.name, w.description, w.comfyui_workflow_path,
    w.properties, w.output_node_id, w.output_extension, w.output_mime_type, w.keep_metadata, w.run_limit_seconds,
    w.lease_seconds, w.max_attempts, w.refund_on_cancel, w.requirements
FROM workflows w LEFT JOIN workflow_versions last ON last.workflow_id = w.id
  AND last.version = (SELECT max(v.version) FROM workflow_versions v WHERE v.workflow_id = :id)
WHERE w.id = :id
  AND (last.version IS NULL
       OR (w.name, w.description, w.comfyui_workflow_path, w.properties, w.output_node_id, w.output_extension,
           w.output_mime_type, w.keep_metadata, w.run_limit_seconds, w.lease_seconds, w.max_attempts,
           w.refund_on_cancel, w.requirements)
       IS DISTINCT FROM
          (last.name, last.description, last.comfyui_workflow_path, last.properties, last.output_node_id,
           last.output_extension, last.output_mime_type, last.keep_metadata, last.run_limit_seconds,
           last.lease_seconds, last.max_attempts, last.refund_on_cancel, last.requirements))

-- name: version_of_workflow
SELECT max(version) FROM workflow_versions WHERE workflow_id = :id

-- name: list_versions
SELECT version, actor, (SELECT u.email FROM users u WHERE u.id = user_of_actor(actor)) AS actor_email, created_at, name,
    comfyui_workflow_path
FROM workflow_versions
WHERE workflow_id = :workflow_id AND version < coalesce(:before, 2147483647)
ORDER BY version DESC LIMIT :limit

-- name: find_version
SELECT version, actor, (SELECT u.email FROM users u WHERE u.id = user_of_actor(actor)) AS actor_email, created_at, name,
    comfyui_workflow_path, description, properties, output_node_id,
    output_extension, output_mime_type, keep_metadata, run_limit_seconds, lease_seconds, max_attempts,
    refund_on_cancel, requirements
FROM workflow_versions
WHERE workflow_id = :workflow_id AND version = :version

-- name: provider_is_served
-- Whether a worker that is not revoked declares the provider. It reads all workers, a few thousand at most.
SELECT EXISTS (SELECT FROM comfyui_workers WHERE revoked_at IS NULL AND :provider = ANY (providers))

-- name: effects_of_workflow
SELECT slug, overrides, price_formula FROM effects WHERE workflow_id = :workflow_id ORDER BY slug

-- name: lock_priced_effects
-- Run before `lock_workflow`: a change of an effect locks its row first, and the workflow second.
SELECT id FROM effects WHERE workflow_id = :workflow_id AND price_formula <> '' ORDER BY id FOR NO KEY UPDATE

-- name: set_lowest_price
-- New limits of the properties of a workflow change the lowest price that a formula can have. An effect that was
-- created after `lock_priced_effects` and is changed now waits for the workflow. It then calculates its own price.
UPDATE effects SET credits_cost = :credits_cost
WHERE credits_cost <> :credits_cost AND id = (
    SELECT id FROM effects WHERE workflow_id = :workflow_id AND slug = :slug FOR NO KEY UPDATE SKIP LOCKED
)

-- name: delete_workflow
-- The database refuses if an effect, a lane of the queue or a timing refers to the workflow.
DELETE FROM workflows WHERE id = :id AND NOT is_active

-- name: lock_workflow_of_effect
-- The properties do not change until the effect that was checked against them is written.
SELECT id, slug, properties, comfyui_workflow_path FROM workflows WHERE slug = :slug FOR SHARE

-- part: written_effect_columns
id, slug, name, description, category, preview, (SELECT w.slug FROM workflows w WHERE w.id = effects.workflow_id) AS
workflow, overrides, credits_cost, price_formula, is_published, provider, stage, last_processing_time_seconds, has_jobs,
version, created_at, updated_at

-- name: create_effect
INSERT INTO effects (id, slug, name, description, category, workflow_id, overrides, credits_cost, price_formula,
    is_published, provider, stage)
VALUES (:id, :slug, :name, :description, :category, :workflow_id, :overrides, :credits_cost, :price_formula,
    :is_published, :provider, :stage)
ON CONFLICT (slug) DO NOTHING
RETURNING {written_effect_columns}

-- part: effect_columns
e.id, e.slug, e.name, e.description, e.category, e.preview, w.slug AS workflow, e.overrides, e.credits_cost,
e.price_formula, e.is_published, e.provider, e.stage, e.last_processing_time_seconds, e.has_jobs, e.version,
e.created_at, e.updated_at

-- name: find_effect
SELECT {effect_columns}
FROM effects e JOIN workflows w ON w.id = e.workflow_id
WHERE e.id = (SELECT coalesce(:id::uuid, (SELECT id FROM effects WHERE slug = :slug)))

-- name: lock_effect
SELECT {effect_columns}
FROM effects e JOIN workflows w ON w.id = e.workflow_id
WHERE e.id = (SELECT coalesce(:id::uuid, (SELECT id FROM effects WHERE slug = :slug)))
FOR UPDATE OF e

-- name: list_effects
SELECT {effect_columns}
FROM effects e JOIN workflows w ON w.id = e.workflow_id
WHERE e.id < coalesce(:before, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
  AND (:workflow::text IS NULL OR w.slug = :workflow)
  AND (:is_published::boolean IS NULL OR e.is_published = :is_published)
ORDER BY e.id DESC LIMIT :limit

-- name: update_effect
UPDATE effects SET name = :name, description = :description, category = :category, workflow_id = :workflow_id,
    overrides = :overrides, credits_cost = :credits_cost, price_formula = :price_formula, is_published = :is_published,
    provider = :provider, stage = :stage, version = version + 1, updated_at = clock_timestamp()
WHERE id = :id
RETURNING {written_effect_columns}

-- name: set_effect_preview
UPDATE effects SET preview = :preview, version = version + 1, updated_at = clock_timestamp() WHERE id = :id

-- name: delete_effect
DELETE FROM effects WHERE id = :id

-- part: listed_effect_columns
e.id, e.slug, e.name, e.description, e.category, e.preview, e.overrides, e.credits_cost, e.price_formula,
e.last_processing_time_seconds, e.provider, e.stage, w.id AS workflow_id, w.is_active, w.properties,
w.output_mime_type, w.refund_on_cancel

-- name: list_published
SELECT {listed_effect_columns}
FROM effects e JOIN workflows w ON w.id = e.workflow_id
WHERE e.id < coalesce(:before, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid) AND e.is_published
  AND (:search::text IS NULL OR position(lower(:search) IN lower(e.name)) > 0)
  AND (:category::text IS NULL OR e.category = :category)
ORDER BY e.id DESC LIMIT :limit

-- name: names_of_effects
-- Also of effects that are not published: jobs may refer to an effect that was unpublished later.
SELECT id, slug, name FROM effects WHERE id = ANY (:ids::uuid[])

-- name: effects_named
SELECT id FROM effects WHERE id = ANY (:ids::uuid[])
UNION
SELECT id FROM effects WHERE slug = ANY (:slugs::text[])

-- name: find_published
SELECT {listed_effect_columns}, e.has_jobs, w.comfyui_workflow_path, w.output_node_id, w.output_extension,
    w.keep_metadata, w.run_limit_seconds, w.lease_seconds, w.max_attempts
FROM effects e JOIN workflows w ON w.id = e.workflow_id
WHERE e.id = (SELECT coalesce(:id::uuid, (SELECT id FROM effects WHERE slug = :slug))) AND e.is_published

-- name: published_of_workflow
-- One row without an effect if no effect of the workflow is published.
SELECT e.id AS effect_id, e.slug AS effect
FROM workflows w LEFT JOIN effects e ON e.workflow_id = w.id AND e.is_published
WHERE w.slug = :slug
ORDER BY e.id

-- name: list_image_effects
SELECT e.id, e.slug, e.name, e.description, e.preview, e.overrides, e.credits_cost, e.price_formula,
    w.slug AS workflow, w.is_active, w.properties, w.comfyui_workflow_path
FROM effects e JOIN workflows w ON w.id = e.workflow_id
WHERE e.id < coalesce(:before, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid) AND e.is_published
  AND w.output_mime_type LIKE 'image/%' AND w.comfyui_workflow_path IS NOT NULL
ORDER BY e.id DESC LIMIT :limit

-- name: mark_used
-- Run once per effect, before its first job.
UPDATE effects SET has_jobs = true WHERE id = :id RETURNING id

-- name: create_asset
INSERT INTO catalog_assets (id, path, name, mime_type, size, sha256)
VALUES (:id, :path, :name, :mime_type, :size, :sha256)
RETURNING id, status, path, name, mime_type, size, sha256, created_at

-- name: find_asset
SELECT id, status, path, name, mime_type, size, sha256, created_at FROM catalog_assets
WHERE id = :id AND deleted_at IS NULL

-- name: list_assets
SELECT id, status, path, name, mime_type, size, sha256, created_at FROM catalog_assets
WHERE id < coalesce(:before, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
  AND (:status::text IS NULL OR status = :status) AND deleted_at IS NULL
ORDER BY id DESC LIMIT :limit

-- name: uses_of_assets
-- Reads the whole catalog, which has some hundred rows, because ids of assets are inside JSON.
SELECT p.value ->> 'default' AS asset_id, 'workflow' AS type, w.slug, w.name
FROM workflows w CROSS JOIN LATERAL jsonb_array_elements(w.properties) p
WHERE p.value ->> 'type' IN ('image', 'video') AND p.value ->> 'default' = ANY (:ids::text[])
UNION
SELECT o.value AS asset_id, 'effect' AS type, e.slug, e.name
FROM effects e CROSS JOIN LATERAL jsonb_each_text(e.overrides) o
WHERE o.value = ANY (:ids::text[])
ORDER BY type DESC, slug

-- name: confirm_asset
UPDATE catalog_assets SET status = 'ready', path = :path, sha256 = :sha256
WHERE id = :id AND status = 'pending' AND deleted_at IS NULL
RETURNING id

-- name: ready_assets
SELECT a.id, a.path, a.name, a.mime_type, a.size, a.sha256
FROM unnest(:ids::uuid[]) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT c.id, c.path, c.name, c.mime_type, c.size, c.sha256 FROM catalog_assets c
    WHERE c.id = wanted.id AND c.status = 'ready' AND c.deleted_at IS NULL LIMIT 1
) a

-- name: hold_ready_assets
-- The lock keeps the assets from being deleted before the row that refers to them is committed.
SELECT id, path, name, mime_type, size, sha256 FROM catalog_assets
WHERE id = ANY (:ids::uuid[]) AND status = 'ready' AND deleted_at IS NULL
ORDER BY id
FOR SHARE

-- name: lock_asset
SELECT id, status, path, name, mime_type, size, sha256, created_at FROM catalog_assets
WHERE id = :id AND deleted_at IS NULL
FOR UPDATE

-- name: mark_asset_deleted
UPDATE catalog_assets SET deleted_at = clock_timestamp() WHERE id = :id

-- name: assets_to_remove
SELECT id FROM catalog_assets
WHERE deleted_at < :now::timestamptz - make_interval(secs => :kept_seconds) ORDER BY deleted_at, id LIMIT :limit

-- name: remove_asset
DELETE FROM catalog_assets WHERE id = :id AND deleted_at IS NOT NULL
