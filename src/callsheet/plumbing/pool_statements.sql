-- database: pool

-- name: backfill_place
SELECT tenant_id, id FROM backfills WHERE name = :name

-- name: hold_backfill
-- Returns no row if another control plane has continued the backfill meanwhile.
SELECT name FROM backfills WHERE name = :name AND tenant_id = :tenant_id AND id = :id FOR UPDATE

-- name: move_backfill
UPDATE backfills SET tenant_id = :tenant_id, id = :id WHERE name = :name

-- name: end_backfill
DELETE FROM backfills WHERE name = :name
