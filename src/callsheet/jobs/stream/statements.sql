-- database: pool

-- name: follow_jobs
-- The unread events of several readers, the status of each job, and the latest progress if it runs: one statement for
-- all readers that were woken together. A reader gets one row per event, or one row without an event. `is_known`: the
-- event at the position of the reader still exists.
SELECT wanted.place, job.status, job.event_seq, job.is_known, event.job_id, event.seq, event.event, event.from_status,
    event.to_status, event.actor, event.reason, event.data, event.at, job.client_reference, job.metadata,
    progress.percent, progress.message, progress.elapsed_ms, progress.node_id, progress.updated_at, progress.preview_at
FROM unnest(:tenant_ids::uuid[], :job_ids::uuid[], :numbers::bigint[], :times::timestamptz[]) WITH ORDINALITY
    AS wanted (tenant_id, wanted_job, number, at, place)
LEFT JOIN LATERAL (
    SELECT status, event_seq, charge_cycle, lease_seq, client_reference, metadata,
        CASE WHEN wanted.at IS NULL THEN event_seq >= wanted.number
            ELSE EXISTS (
                SELECT FROM job_events
                WHERE tenant_id = wanted.tenant_id AND job_id = wanted.wanted_job AND seq = wanted.number
                  AND at = wanted.at)
        END AS is_known
    FROM ai_jobs
    WHERE tenant_id = wanted.tenant_id AND id = wanted.wanted_job LIMIT 1
) job ON true
LEFT JOIN LATERAL (
    SELECT job_id, seq, event, from_status, to_status, actor, reason, data, at FROM job_events
    WHERE tenant_id = wanted.tenant_id AND job_id = wanted.wanted_job AND seq > wanted.number
    ORDER BY seq LIMIT :limit
) event ON true
LEFT JOIN LATERAL (
    SELECT percent, message, elapsed_ms, node_id, updated_at, preview_at FROM job_progress p
    WHERE p.tenant_id = wanted.tenant_id AND p.job_id = wanted.wanted_job AND job.status = 'processing'
      AND p.charge_cycle = job.charge_cycle AND p.lease_seq = job.lease_seq
    LIMIT 1
) progress ON true
ORDER BY wanted.place, event.seq

-- name: follow_user
-- The unread events of a reader, with the wallet after them; at least one row. The held tokens change only with an
-- event, so they are read only if there is an event or the reader has just connected. `is_known`: the event at the
-- position of the reader still exists.
WITH event AS MATERIALIZED (
    SELECT job_id, seq, user_seq, event, from_status, to_status, actor, reason, data, at FROM job_events
    WHERE tenant_id = :tenant_id AND user_id = :user_id AND user_seq > :after
    ORDER BY user_seq LIMIT :limit
)
SELECT wallet.balance, wallet.paid_by_tenant, wallet.held, wallet.is_known, event.job_id, event.seq, event.user_seq,
    event.event, event.from_status, event.to_status, event.actor, event.reason, event.data, event.at,
    job.client_reference, job.metadata
FROM (
    SELECT
        payer.balance, payer.paid_by_tenant,
        CASE WHEN :is_first OR EXISTS (SELECT FROM event) THEN user_held(:tenant_id, :user_id)::bigint END AS held,
        CASE WHEN :at::timestamptz IS NULL THEN :after <= coalesce((
                SELECT last_seq FROM user_streams WHERE tenant_id = :tenant_id AND user_id = :user_id), 0)
            ELSE EXISTS (
                SELECT FROM job_events
                WHERE tenant_id = :tenant_id AND user_id = :user_id AND user_seq = :after AND at = :at)
        END AS is_known
    FROM payer_balance(:tenant_id, :user_id) payer
) wallet LEFT JOIN event ON true
LEFT JOIN LATERAL (
    SELECT client_reference, metadata FROM ai_jobs
    WHERE tenant_id = :tenant_id AND id = event.job_id LIMIT 1
) job ON true
ORDER BY event.user_seq

-- name: end_of_user_stream
SELECT user_seq AS number, at FROM job_events
WHERE tenant_id = :tenant_id AND user_id = :user_id
ORDER BY user_seq DESC LIMIT 1

-- name: is_event
SELECT EXISTS (
    SELECT FROM job_events WHERE tenant_id = :tenant_id AND job_id = :job_id AND seq = :number AND at = :at)
