-- database: pool
-- owns: bulk_action_jobs, bulk_action_scans

-- name: read_scan
SELECT read_down_to, is_complete FROM bulk_action_scans WHERE bulk_action_id = :bulk_action_id

-- name: write_scan
INSERT INTO bulk_action_scans (bulk_action_id, read_down_to, is_complete)
VALUES (:bulk_action_id, :read_down_to, :is_complete)
ON CONFLICT (bulk_action_id) DO UPDATE SET
    read_down_to = least(excluded.read_down_to, bulk_action_scans.read_down_to),
    is_complete = bulk_action_scans.is_complete OR excluded.is_complete

-- name: open_jobs
-- The next jobs, and whether this action changed them before: then the process that did it crashed before it wrote the
-- outcome. With EXISTS, the planner may read all events of all jobs into a hash table.
SELECT item.tenant_id, item.job_id, item.charge_cycle, (
    SELECT e.seq FROM job_events e
    WHERE e.tenant_id = item.tenant_id AND e.job_id = item.job_id AND e.event = 'job.transition' AND e.actor = :actor
    LIMIT 1
) IS NOT NULL AS is_changed
FROM bulk_action_jobs item
WHERE item.bulk_action_id = :bulk_action_id AND item.outcome IS NULL
ORDER BY item.tenant_id, item.job_id LIMIT :limit

-- name: is_changed
SELECT EXISTS (
    SELECT FROM job_events
    WHERE tenant_id = :tenant_id AND job_id = :job_id AND event = 'job.transition' AND actor = :actor
) AS is_changed

-- name: write_outcome
UPDATE bulk_action_jobs SET outcome = :outcome, code = :code, message = :message
WHERE bulk_action_id = :bulk_action_id AND tenant_id = :tenant_id AND job_id = :job_id AND outcome IS NULL

-- name: count_outcomes
SELECT outcome, code, count(*) AS jobs, left(min(message), 300) AS example FROM bulk_action_jobs
WHERE bulk_action_id = :bulk_action_id
GROUP BY outcome, code

-- name: clear_jobs
DELETE FROM bulk_action_jobs
WHERE bulk_action_id = :bulk_action_id AND (tenant_id, job_id) IN (
    SELECT tenant_id, job_id FROM bulk_action_jobs WHERE bulk_action_id = :bulk_action_id LIMIT :limit)

-- name: clear_scan
DELETE FROM bulk_action_scans WHERE bulk_action_id = :bulk_action_id
