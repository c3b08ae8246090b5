-- database: central

-- name: queued_by_route
-- How much is queued per workflow and provider, counted lane by lane from the lane's mark and no further than :most.
-- Rows of the queue, read here because only a worker that asks for one job too many needs to know.
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
