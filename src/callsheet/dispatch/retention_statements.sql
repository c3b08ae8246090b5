-- database: central

-- name: delete_old_history
-- Oldest first, by key. A dispatch that took long may finish after dispatches with higher ids. Those then stay until it
-- is old enough, too.
DELETE FROM dispatch_history
WHERE dispatch_id = ANY (ARRAY (
    SELECT dispatch_id
    FROM (SELECT dispatch_id, finished_at FROM dispatch_history ORDER BY dispatch_id LIMIT :limit) oldest
    WHERE finished_at < clock_timestamp() - make_interval(days => :days::integer)
))
