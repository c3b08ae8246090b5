-- database: pool

-- name: follow_jobs
-- The unread events of several readers, the status of each job, and the latest progress if it runs: one statement for
-- all readers that were woken together. A reader gets one row per event, or one row without an event.
SELECT asked.place, job.status, job.event_seq, event.job_id, event.seq, event.event, event.from_status,
    event.to_status, event.actor, event.reason, event.data, event.at, progress.percent, progress.message,
    progress.elapsed_ms, progress.node_id, progress.updated_at, progress.preview_at
FROM unnest(:tenant_ids::uuid[], :job_ids::uuid[], :positions::integer[]) WITH ORDINALITY
    AS asked (tenant_id, asked_job, position, place)
LEFT JOIN LATERAL (
    SELECT status, event_seq, charge_cycle, lease_seq FROM ai_jobs
    WHERE tenant_id = asked.tenant_id AND id = asked.asked_job LIMIT 1
) job ON true
LEFT JOIN LATERAL (
    SELECT job_id, seq, event, from_status, to_status, actor, reason, data, at FROM job_events
    WHERE tenant_id = asked.tenant_id AND job_id = asked.asked_job AND seq > asked.position
    ORDER BY seq LIMIT :limit
) event ON true
LEFT JOIN LATERAL (
    SELECT percent, message, elapsed_ms, node_id, updated_at, preview_at FROM job_progress p
    WHERE p.tenant_id = asked.tenant_id AND p.job_id = asked.asked_job AND job.status = 'processing'
      AND p.charge_cycle = job.charge_cycle AND p.lease_seq = job.lease_seq
    LIMIT 1
) progress ON true
ORDER BY asked.place, event.seq

-- name: follow_user
-- The unread events of a reader, with the wallet after them; at least one row. The held tokens change only with an
-- event, so they are read only if there is an event or the reader has just connected.
WITH event AS MATERIALIZED (
    SELECT job_id, seq, user_seq, event, from_status, to_status, actor, reason, data, at FROM job_events
    WHERE tenant_id = :tenant_id AND user_id = :user_id AND user_seq > :after
    ORDER BY user_seq LIMIT :limit
)
SELECT wallet.balance, wallet.held, event.job_id, event.seq, event.user_seq, event.event, event.from_status,
    event.to_status, event.actor, event.reason, event.data, event.at
FROM (
    SELECT
        coalesce((SELECT balance FROM token_wallets WHERE tenant_id = :tenant_id AND user_id = :user_id), 0) AS balance,
        CASE WHEN :is_first OR EXISTS (SELECT FROM event) THEN wallet_held(:tenant_id, :user_id)::bigint END AS held
) wallet LEFT JOIN event ON true
ORDER BY event.user_seq

-- name: last_user_seq
SELECT coalesce((SELECT last_seq FROM user_streams WHERE tenant_id = :tenant_id AND user_id = :user_id), 0)
