-- database: central

-- name: queued_by_route
-- Queued jobs per workflow and provider, counted lane by lane from the lane's low_water, up to :most per lane.
-- Rows of the queue, read here because only a worker that requests a job beyond its capacity needs the number.
SELECT lane.workflow_id, lane.provider, sum(waiting.rows)::bigint AS queued
FROM dispatch_lanes lane CROSS JOIN LATERAL (
    SELECT count(*) AS rows FROM (
        SELECT FROM ai_job_dispatches d
        WHERE (d.lane_id, d.dispatch_id) >= (lane.lane_id, lane.low_water) AND d.lane_id <= lane.lane_id
          AND d.status = 'queued' AND d.not_before IS NULL
        ORDER BY d.lane_id, d.dispatch_id LIMIT :most::bigint
    ) counted
) waiting
WHERE lane.workflow_id = ANY (:workflow_ids::bigint[]) AND lane.stage = :stage
  AND lane.provider = ANY (:providers::text[])
GROUP BY lane.workflow_id, lane.provider
