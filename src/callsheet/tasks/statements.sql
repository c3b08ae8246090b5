-- database: central

-- name: keep_workflows
SELECT workflows_keep(:slugs, :names, :descriptions)

-- name: find_workflows
SELECT id, slug, is_active, refund_on_cancel FROM workflows WHERE slug = ANY (:slugs::text[])
