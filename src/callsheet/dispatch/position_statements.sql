-- database: central

-- name: route_loads
-- About how many jobs would be leased before a new job of this user, for any number of routes: all jobs of a higher
-- priority, the user's own jobs, and the next job of each other user (all of their jobs if the queue is not fair).
-- Lanes and rows are counted up to a bound, so the queue is never scanned.
SELECT route.place, clock_timestamp() AS now,
    (SELECT t.average_seconds FROM workflow_timings t WHERE t.workflow_id = route.workflow_id) AS average_seconds,
    (
        SELECT count(*) FROM (
            SELECT FROM (
                SELECT l.lane_id, l.low_water, l.priority, l.tenant_id, l.user_id FROM dispatch_lanes l
                WHERE l.workflow_id = route.workflow_id AND l.stage = route.stage AND l.provider = route.provider
                  AND l.has_work AND l.priority >= 0
                ORDER BY l.priority DESC, l.lane_id LIMIT :max_rows::bigint
            ) l CROSS JOIN LATERAL (
                SELECT FROM ai_job_dispatches d
                WHERE d.lane_id = l.lane_id AND d.dispatch_id >= l.low_water AND d.status = 'queued'
                  AND d.not_before IS NULL
                ORDER BY d.dispatch_id
                LIMIT CASE WHEN :is_fair::boolean AND l.priority = 0
                    AND (l.tenant_id, l.user_id) IS DISTINCT FROM (:tenant_id::uuid, :user_id::uuid)
                    THEN 1 ELSE :max_rows::bigint END
            ) first
            LIMIT :max_rows::bigint
        ) counted
    ) AS ahead
FROM unnest(:workflow_ids::bigint[], :stages::text[], :providers::text[]) WITH ORDINALITY
    AS route (workflow_id, stage, provider, place)

-- part: queued_rows_of_lane
-- Rows of a lane are found by a comparison of pairs: see `take` in statements.sql.
FROM ai_job_dispatches d
WHERE (d.lane_id, d.dispatch_id) >= (lane.lane_id, lane.low_water) AND d.lane_id <= lane.lane_id
  AND d.status = 'queued' AND d.not_before IS NULL
ORDER BY d.lane_id, d.dispatch_id

-- part: is_not_skipped
-- A lease skips the lanes of an identifier that is at its limit. For a job in one of them, they count.
(lane.is_open OR lane.concurrency_identifier = dispatch.concurrency_identifier)

-- part: runs_on_route
d.workflow_id = route.workflow_id AND d.stage = route.stage AND d.provider = route.provider AND d.status <> 'queued'

-- name: outlook
-- The positions of any number of jobs: how many jobs would be leased before each if no new job arrived. Those are all
-- jobs of a higher priority, and the jobs of the same priority that the rule of the queue (fairness.py) puts first. A
-- job is compared by the jobs that its user would have in flight when it is leased; then by those of its tenant,
-- relative to the weight. Equals take turns, in the order of their first jobs. Rows are counted lane by lane from the
-- lane's mark, at most 1001 of them, in at most 1001 lanes per route, so the queue is never scanned. Lanes of another
-- identifier that is at its limit do not count, because a lease skips them. The average belongs to the catalog, which
-- is a lower room in the same database: reading it here saves a second round trip. Rows of a lane are found by a
-- comparison of pairs: see `take` in statements.sql.
-- one statement because: each count depends on the count before it, and all counts must be of the same moment.
WITH wanted_job AS MATERIALIZED (
    SELECT * FROM unnest(:tenant_ids::uuid[], :job_ids::uuid[], :cycles::integer[])
        AS w (tenant_id, job_id, charge_cycle)
), dispatch AS MATERIALIZED (
    SELECT d.dispatch_id, d.tenant_id, d.user_id, d.job_id, d.charge_cycle, d.status, d.workflow_id, d.stage,
        d.provider, d.concurrency_identifier, d.priority, d.not_before, d.last_leased_at, d.run_started_at,
        l.tenant_id AS lane_tenant_id, l.user_id AS lane_user_id, CASE WHEN d.status = 'queued'
            THEN dense_rank() OVER (ORDER BY d.workflow_id, d.stage, d.provider) END AS route_id
    FROM wanted_job w CROSS JOIN LATERAL (
        SELECT d.dispatch_id, d.tenant_id, d.user_id, d.tenant_job_id AS job_id, d.charge_cycle, d.status,
            d.workflow_id, d.stage, d.provider, d.concurrency_identifier, d.priority, d.not_before, d.last_leased_at,
            d.run_started_at, d.lane_id
        FROM ai_job_dispatches d
        WHERE d.tenant_id = w.tenant_id AND d.tenant_job_id = w.job_id AND d.charge_cycle = w.charge_cycle
        LIMIT 1
    ) d CROSS JOIN LATERAL (SELECT tenant_id, user_id FROM dispatch_lanes WHERE lane_id = d.lane_id LIMIT 1) l
), route AS MATERIALIZED (
    SELECT DISTINCT route_id, workflow_id, stage, provider FROM dispatch WHERE route_id IS NOT NULL
), lane AS MATERIALIZED (
    SELECT route.route_id, lane.lane_id, lane.concurrency_identifier, lane.priority, lane.low_water, lane.tenant_id,
        lane.user_id, (SELECT d.dispatch_id {queued_rows_of_lane} LIMIT 1) AS head_id,
        coalesce((SELECT t.weight FROM tenants t WHERE t.id = lane.tenant_id), 1) AS weight,
        -- Jobs in flight on this route.
        (SELECT count(*) FROM ai_job_dispatches d
         WHERE d.tenant_id = lane.tenant_id AND d.user_id = lane.user_id AND {runs_on_route}) AS user_jobs,
        (SELECT count(*) FROM ai_job_dispatches d
         WHERE d.tenant_id = lane.tenant_id AND {runs_on_route}) AS tenant_jobs,
        lane.concurrency_identifier = '' OR coalesce(
            (SELECT c.max_concurrent FROM concurrency_limits c WHERE c.identifier = lane.concurrency_identifier)
            > (SELECT count(*) FROM ai_job_dispatches d
               WHERE d.concurrency_identifier = lane.concurrency_identifier AND d.concurrency_identifier <> ''
                 AND d.status <> 'queued'), true) AS is_open
    FROM route CROSS JOIN LATERAL (
        SELECT lane_id, concurrency_identifier, priority, low_water, tenant_id, user_id FROM dispatch_lanes l
        WHERE l.workflow_id = route.workflow_id AND l.stage = route.stage AND l.provider = route.provider AND l.has_work
        ORDER BY l.priority DESC, l.lane_id LIMIT :max_rows::bigint
    ) lane
)
SELECT dispatch.tenant_id, dispatch.job_id, dispatch.charge_cycle, dispatch.status, dispatch.workflow_id,
    dispatch.stage, dispatch.provider, dispatch.not_before, dispatch.last_leased_at, dispatch.run_started_at,
    clock_timestamp() AS now, bound.max_concurrent,
    CASE WHEN bound.max_concurrent IS NOT NULL THEN (
        SELECT count(*) FROM ai_job_dispatches d
        WHERE d.concurrency_identifier = dispatch.concurrency_identifier AND d.concurrency_identifier <> ''
          AND d.status <> 'queued') END AS in_use, terms.max_running, terms.max_running_per_user,
    CASE WHEN terms.max_running IS NOT NULL THEN (
        SELECT count(*) FROM ai_job_dispatches d
        WHERE d.tenant_id = dispatch.tenant_id AND d.status <> 'queued') END AS tenant_running,
    CASE WHEN terms.max_running_per_user IS NOT NULL THEN (
        SELECT count(*) FROM ai_job_dispatches d
        WHERE d.tenant_id = dispatch.tenant_id AND d.user_id = dispatch.user_id
          AND d.status <> 'queued') END AS user_running,
    (SELECT t.average_seconds FROM workflow_timings t WHERE t.workflow_id = dispatch.workflow_id) AS average_seconds,
    (SELECT w.is_active FROM workflows w WHERE w.id = dispatch.workflow_id) AS is_active,
    CASE WHEN dispatch.status = 'queued'
        THEN least(:max_rows::bigint, higher.rows + own.rows + mates.rows + others.rows) END AS ahead
FROM dispatch LEFT JOIN LATERAL (
    SELECT c.max_concurrent FROM concurrency_limits c WHERE c.identifier = dispatch.concurrency_identifier
) bound ON true CROSS JOIN LATERAL (
    SELECT coalesce(t.max_running, :running_per_tenant::integer) AS max_running,
        coalesce(t.max_running_per_user, :running_per_user::integer) AS max_running_per_user
    FROM tenants t
    WHERE t.id = dispatch.tenant_id
) terms CROSS JOIN LATERAL (
    -- Jobs of a higher priority.
    SELECT count(*) AS rows FROM (
        SELECT FROM lane CROSS JOIN LATERAL (
            SELECT {queued_rows_of_lane} LIMIT :max_rows::bigint
        ) first
        WHERE lane.route_id = dispatch.route_id AND lane.priority > dispatch.priority AND {is_not_skipped}
        LIMIT :max_rows::bigint
    ) counted
) higher CROSS JOIN LATERAL (
    -- Older jobs of the same user.
    SELECT count(*) AS rows FROM (
        SELECT FROM lane CROSS JOIN LATERAL (
            SELECT FROM ai_job_dispatches d
            WHERE (d.lane_id, d.dispatch_id) >= (lane.lane_id, lane.low_water)
              AND (d.lane_id, d.dispatch_id) < (lane.lane_id, dispatch.dispatch_id)
              AND d.status = 'queued' AND d.not_before IS NULL
            ORDER BY d.lane_id, d.dispatch_id LIMIT :max_rows::bigint
        ) first
        WHERE lane.route_id = dispatch.route_id AND lane.priority = dispatch.priority AND {is_not_skipped}
          AND lane.tenant_id = dispatch.lane_tenant_id AND lane.user_id = dispatch.lane_user_id
        LIMIT :max_rows::bigint
    ) counted
) own CROSS JOIN LATERAL (
    -- Jobs of its user and of its tenant in flight on this route.
    SELECT count(*) FILTER (WHERE d.user_id = dispatch.lane_user_id) AS user_jobs, count(*) AS tenant_jobs
    FROM route JOIN ai_job_dispatches d ON {runs_on_route}
    WHERE route.route_id = dispatch.route_id AND d.tenant_id = dispatch.lane_tenant_id
) running CROSS JOIN LATERAL (
    -- The first job of its user and of its tenant.
    SELECT min(lane.head_id) FILTER (WHERE lane.user_id = dispatch.lane_user_id) AS of_user,
        min(lane.head_id) AS of_tenant
    FROM lane
    WHERE lane.route_id = dispatch.route_id AND lane.priority = dispatch.priority
      AND lane.tenant_id = dispatch.lane_tenant_id
) heads CROSS JOIN LATERAL (
    -- Jobs of other users of its tenant: for each user, as many as the job's own user will have had at its turn.
    SELECT count(*) AS rows FROM (
        SELECT FROM lane CROSS JOIN LATERAL (
            SELECT row_number() OVER (ORDER BY d.lane_id, d.dispatch_id) AS place {queued_rows_of_lane}
            LIMIT greatest(0, least(:max_rows::bigint, running.user_jobs + own.rows + 1 - lane.user_jobs))
        ) first
        WHERE lane.route_id = dispatch.route_id AND lane.priority = dispatch.priority AND {is_not_skipped}
          AND lane.tenant_id = dispatch.lane_tenant_id AND lane.user_id <> dispatch.lane_user_id
          -- The last of these would be equal to the job.
          AND (first.place <= running.user_jobs + own.rows - lane.user_jobs OR lane.head_id < heads.of_user)
        LIMIT :max_rows::bigint
    ) counted
) mates CROSS JOIN LATERAL (
    -- Jobs of its tenant in flight at its turn, relative to the weight.
    SELECT (running.tenant_jobs + own.rows + mates.rows)::float8
        / coalesce((SELECT t.weight FROM tenants t WHERE t.id = dispatch.lane_tenant_id), 1) AS value
) turn CROSS JOIN LATERAL (
    -- Jobs of other tenants: for each tenant, as many as keep the tenant below that value.
    SELECT count(*) AS rows FROM (
        SELECT FROM (
            SELECT lane.tenant_id, lane.weight, lane.tenant_jobs, min(lane.head_id) AS head_id FROM lane
            WHERE lane.route_id = dispatch.route_id AND lane.priority = dispatch.priority AND {is_not_skipped}
              AND lane.tenant_id <> dispatch.lane_tenant_id
            GROUP BY lane.tenant_id, lane.weight, lane.tenant_jobs
        ) tenant CROSS JOIN LATERAL (
            SELECT row_number() OVER () AS place FROM lane CROSS JOIN LATERAL (
                SELECT {queued_rows_of_lane}
                LIMIT greatest(0, least(:max_rows::bigint, floor(turn.value * tenant.weight) - tenant.tenant_jobs + 1))
            ) first
            WHERE lane.route_id = dispatch.route_id AND lane.priority = dispatch.priority AND {is_not_skipped}
              AND lane.tenant_id = tenant.tenant_id
            LIMIT greatest(0, least(:max_rows::bigint, floor(turn.value * tenant.weight) - tenant.tenant_jobs + 1))
        ) first
        WHERE first.place < turn.value * tenant.weight - tenant.tenant_jobs + 1 OR tenant.head_id < heads.of_tenant
        LIMIT :max_rows::bigint
    ) counted
) others
