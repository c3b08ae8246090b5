-- database: pool

-- name: newest_events
SELECT job_id, seq, user_seq, event, from_status, to_status, actor, reason, data, at, request_id, reported
FROM job_events
WHERE tenant_id = :tenant_id AND job_id = :job_id
ORDER BY seq DESC LIMIT :limit

-- name: newest_traces
SELECT seq, trace FROM job_traces
WHERE tenant_id = :tenant_id AND job_id = :job_id
ORDER BY seq DESC LIMIT :limit

-- name: now
SELECT clock_timestamp()
