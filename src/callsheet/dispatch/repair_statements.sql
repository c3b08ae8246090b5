-- database: central

-- name: raise_lease_seq
-- A dispatch with a smaller lease_seq than its job (created again, or restored from a backup) continues from the job's
-- lease_seq; otherwise the job would reject the next lease as outdated. The tokens of the missing leases are lost.
UPDATE ai_job_dispatches d SET
    lease_seq = :lease_seq::bigint,
    past_lease_tokens = d.past_lease_tokens
        || ARRAY (SELECT gen_random_uuid() FROM generate_series(d.lease_seq + 1, :lease_seq::bigint)),
    past_workers = d.past_workers || array_fill(''::text, ARRAY[(:lease_seq::bigint - d.lease_seq)::integer])
WHERE d.tenant_id = :tenant_id AND d.tenant_job_id = :job_id AND d.charge_cycle = :charge_cycle
  AND d.lease_token IS NOT DISTINCT FROM :token::uuid AND d.lease_seq < :lease_seq::bigint

-- name: central_states
-- Central's data about jobs in a charge cycle: an open dispatch, a finished one, or neither. Row by row: for a page of
-- 500 jobs the planner would otherwise read both tables whole as long as they are small.
SELECT w.tenant_id, w.job_id, w.charge_cycle, open.dispatch_id, open.status, open.priority, open.lease_seq,
    open.cancel_requested_at IS NOT NULL AS holder_notified, finished.status AS end_status, finished.last_error,
    finished.finished_at <= clock_timestamp() - make_interval(secs => :settle_seconds::float8) AS has_settled
FROM unnest(:tenant_ids::uuid[], :job_ids::uuid[], :cycles::integer[]) AS w (tenant_id, job_id, charge_cycle)
LEFT JOIN LATERAL (
    SELECT d.dispatch_id, d.status, d.priority, d.lease_seq, d.cancel_requested_at FROM ai_job_dispatches d
    WHERE d.tenant_id = w.tenant_id AND d.tenant_job_id = w.job_id AND d.charge_cycle = w.charge_cycle LIMIT 1
) open ON true
LEFT JOIN LATERAL (
    SELECT h.status, h.last_error, h.finished_at FROM dispatch_history h
    WHERE h.tenant_id = w.tenant_id AND h.tenant_job_id = w.job_id AND h.charge_cycle = w.charge_cycle LIMIT 1
) finished ON true

-- name: open_dispatches
-- A page in the order of ids. A young dispatch (has_settled = false) may still be changing.
SELECT dispatch_id, tenant_id, tenant_job_id AS job_id, charge_cycle, status, priority, lease_seq, cancel_requested_at,
    created_at <= clock_timestamp() - make_interval(secs => :settle_seconds::float8) AS has_settled
FROM ai_job_dispatches
WHERE dispatch_id > :after ORDER BY dispatch_id LIMIT :limit
