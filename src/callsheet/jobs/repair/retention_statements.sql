-- database: pool
-- owns: retention_marks

-- name: begin_retention
-- Creates the mark where a sweep goes on: the last job that it looked at. The first mark is before all jobs.
INSERT INTO retention_marks (name, completed_at, id)
VALUES (:name, '-infinity', '00000000-0000-0000-0000-000000000000')
ON CONFLICT DO NOTHING

-- name: ended_jobs
-- Jobs in the order in which they ended, after the mark.
SELECT job.tenant_id, job.user_id, job.id, job.completed_at, job.is_unused
FROM retention_marks mark CROSS JOIN LATERAL (
    SELECT tenant_id, user_id, id, completed_at,
        status = 'canceled' AND lease_seq = 0 AND started_at IS NULL AND counted_bytes > 0 AS is_unused
    FROM ai_jobs
    WHERE (completed_at, id) > (mark.completed_at, mark.id)
      AND completed_at < (SELECT clock_timestamp() - make_interval(secs => :seconds::integer))
    ORDER BY completed_at, id LIMIT :limit
) job
WHERE mark.name = :name
ORDER BY job.completed_at, job.id

-- name: drop_inputs
-- Jobs of one user. A canceled job stays canceled, so it can be found by its id alone. Lists show the beginning of its
-- texts.
WITH emptied_job AS (
    UPDATE ai_jobs SET payload = '{}', counted_bytes = 0
    WHERE tenant_id = :tenant_id AND id = ANY (:job_ids::uuid[]) AND status = 'canceled' AND counted_bytes > 0
    RETURNING tenant_id, id
)
UPDATE job_descriptions d SET sent = NULL, prompt = left(d.prompt, 100), search_text = left(d.search_text, 200)
FROM emptied_job job
WHERE d.user_id = :user_id AND d.job_id = job.id AND d.tenant_id = job.tenant_id

-- name: move_mark
-- Another process may have moved the mark further.
UPDATE retention_marks SET completed_at = :completed_at, id = :id
WHERE name = :name AND (completed_at, id) < (:completed_at, :id)

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
