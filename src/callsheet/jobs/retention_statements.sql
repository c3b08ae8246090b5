-- database: pool
-- owns: retention_marks

-- name: begin_event_retention
-- Creates the mark where `delete_old_events` goes on: the last job whose events were deleted. The first mark is before
-- all jobs.
INSERT INTO retention_marks (name, completed_at, id)
VALUES ('job_events', '-infinity', '00000000-0000-0000-0000-000000000000')
ON CONFLICT DO NOTHING

-- name: delete_old_events
-- Reads jobs in the order in which they ended, from where the last batch stopped. Two kinds of events stay: the last
-- event of each job, which readers of a stream wait for, and its retries, which show how each earlier charge cycle
-- ended.
WITH mark AS MATERIALIZED (
    SELECT completed_at, id FROM retention_marks WHERE name = 'job_events' FOR UPDATE SKIP LOCKED
), ended_job AS MATERIALIZED (
    SELECT job.tenant_id, job.id, job.event_seq, job.completed_at FROM mark CROSS JOIN LATERAL (
        SELECT tenant_id, id, event_seq, completed_at FROM ai_jobs
        WHERE (completed_at, id) > (mark.completed_at, mark.id)
          AND completed_at < (SELECT clock_timestamp() - make_interval(days => :days::integer))
        ORDER BY completed_at, id LIMIT :limit
    ) job
), deleted_event AS (
    DELETE FROM job_events e USING ended_job
    WHERE e.tenant_id = ended_job.tenant_id AND e.job_id = ended_job.id AND e.seq < ended_job.event_seq
      AND NOT (e.event = 'job.transition' AND e.to_status = 'pending')
), deleted_trace AS (
    DELETE FROM job_traces t USING ended_job WHERE t.tenant_id = ended_job.tenant_id AND t.job_id = ended_job.id
), moved_mark AS (
    UPDATE retention_marks SET (completed_at, id) = (
        SELECT completed_at, id FROM ended_job ORDER BY completed_at DESC, id DESC LIMIT 1)
    WHERE name = 'job_events' AND EXISTS (SELECT FROM ended_job)
)
SELECT count(*) FROM ended_job
