-- database: pool
-- owns: products

-- name: get_product
SELECT id, url, title, description, price, currency, images, text, created_at FROM products
WHERE tenant_id = :tenant_id AND id = :id AND user_id = :user_id

-- name: list_products
-- Rows are read by the user's index: see library/statements.sql, list_jobs.
SELECT id, url, title, description, price, currency, images, text, created_at FROM (
    SELECT tenant_id, id, url, title, description, price, currency, images, text, created_at FROM products
    WHERE user_id = :user_id AND id < coalesce(:before, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
    ORDER BY id DESC LIMIT :limit
) product
WHERE product.tenant_id = :tenant_id
ORDER BY product.id DESC

-- name: delete_product
DELETE FROM products WHERE tenant_id = :tenant_id AND id = :id AND user_id = :user_id
