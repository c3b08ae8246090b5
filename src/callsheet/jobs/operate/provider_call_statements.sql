-- database: central

-- name: provider_calls_of_job
-- Reads tables of another room in the same database. One row per delivery, at least one per call.
SELECT c.charge_cycle, c.provider, c.created_at, c.reported_at, c.ended_at, b.status, b.outcome, b.deliveries,
    b.received_at
FROM provider_calls c LEFT JOIN provider_callbacks b ON b.call_id = c.call_id
WHERE c.tenant_id = :tenant_id AND c.job_id = :job_id
ORDER BY c.charge_cycle DESC, b.received_at LIMIT :limit
