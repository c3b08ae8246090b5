-- database: pool
-- owns: tokens_by_provider, tokens_by_provider_progress

-- name: try_lock
SELECT pg_try_advisory_xact_lock(hashtextextended('tokens by provider', 0)) AS is_held

-- name: read_progress
-- If nothing was counted yet, counting starts at the end of the first job.
SELECT clock_timestamp() AS now, (SELECT counted_until FROM tokens_by_provider_progress) AS counted_until,
    (SELECT min(completed_at) FROM ai_jobs WHERE completed_at IS NOT NULL) AS first_end

-- name: write_progress
INSERT INTO tokens_by_provider_progress (counted_until) VALUES (:counted_until)
ON CONFLICT (only_row) DO UPDATE SET counted_until = excluded.counted_until

-- name: count_steps
-- Counts from :since, which starts a step, to :until. A completed job was charged its cost, a canceled one what it had
-- spent. Neither can be retried, so what is counted stays true.
INSERT INTO tokens_by_provider (at, provider, tokens)
SELECT date_bin(make_interval(secs => :step_seconds::integer), job.completed_at, 'epoch'::timestamptz), job.provider,
    sum(CASE WHEN job.status = 'completed' THEN job.cost ELSE coalesce(refund.kept, 0) END)
FROM ai_jobs job
LEFT JOIN token_transactions refund
    ON job.status = 'canceled' AND refund.tenant_id = job.tenant_id AND refund.job_id = job.id
    AND refund.charge_cycle = job.charge_cycle AND refund.type = 'JOB_REFUND'
WHERE job.completed_at >= :since AND job.completed_at < :until AND job.status IN ('completed', 'canceled')
GROUP BY 1, 2
ON CONFLICT (at, provider) DO UPDATE SET tokens = excluded.tokens

-- name: delete_old_steps
DELETE FROM tokens_by_provider WHERE at < :before

-- name: read_tokens
-- The tokens of the last :days days, and of the last day.
SELECT provider, sum(tokens) AS tokens,
    coalesce(sum(tokens) FILTER (WHERE at > clock_timestamp() - interval '1 day'), 0) AS day_tokens
FROM tokens_by_provider
WHERE at > (SELECT clock_timestamp() - make_interval(days => :days::integer))
GROUP BY provider
