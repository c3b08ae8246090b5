-- database: pool

-- name: settled_until
-- Every event with an earlier time is committed, or will never be: the time of an event is read when its transaction
-- has a number (event_time), so it is later than the start of that transaction. The statement that reads events comes
-- after this one, so that it sees what was committed meanwhile. Without track_activities no start is known.
SELECT CASE WHEN current_setting('track_activities')::boolean THEN statement_timestamp()
    ELSE statement_timestamp() - interval '5 minutes' END AS now,
    min(xact_start) FILTER (WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()) AS oldest_start
FROM pg_stat_activity
WHERE datname = current_database()

-- name: events_of_tenant
SELECT event.job_id, event.seq, event.user_id, event.event, event.from_status, event.to_status, event.actor,
    event.reason, event.data, event.at, job.client_reference, job.metadata
FROM (
    SELECT job_id, seq, user_id, event, from_status, to_status, actor, reason, data, at FROM job_events
    WHERE tenant_id = :tenant_id AND (at, job_id, seq) > (:after_at, :after_job::uuid, :after_seq::integer)
      AND at < :until
    ORDER BY at, job_id, seq LIMIT :limit
) event
CROSS JOIN LATERAL (
    SELECT client_reference, metadata FROM ai_jobs
    WHERE tenant_id = :tenant_id AND id = event.job_id LIMIT 1
) job
ORDER BY event.at, event.job_id, event.seq

-- name: has_events_from
-- Events that are there, and that cannot be sent yet.
SELECT EXISTS (SELECT FROM job_events WHERE tenant_id = :tenant_id AND at >= :from)
