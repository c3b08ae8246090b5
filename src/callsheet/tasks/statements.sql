-- database: central

-- name: keep_workflows
-- In one order, so that control planes that start together do not wait for each other crosswise. What is there stays as it
-- is: an admin may have switched it off.
INSERT INTO workflows (slug, name, description)
SELECT slug, name, description FROM unnest(:slugs::text[], :names::text[], :descriptions::text[])
    AS w (slug, name, description)
ORDER BY slug
ON CONFLICT (slug) DO NOTHING

-- name: find_workflows
SELECT id, slug, is_active, refund_on_cancel FROM workflows WHERE slug = ANY (:slugs::text[])
