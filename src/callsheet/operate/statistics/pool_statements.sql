-- database: pool

-- name: sum_held_tokens
-- Tokens that jobs hold which have not ended.
SELECT coalesce(sum(cost), 0)::bigint AS tokens FROM ai_jobs WHERE completed_at IS NULL
