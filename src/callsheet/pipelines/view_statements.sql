-- database: pool
-- Reads for the pages of a run. They use ordinary connections, except where a comment says otherwise.

-- name: best_of_runs
-- The best candidates of the last step of each run.
SELECT c.id, c.run_id, c.number, c.step_id, c.position, c.parent_id, c.job_id, c.output_index, c.seed, c.elo, c.votes,
    c.status, c.rejected_with, c.rejected_by, c.child_count, c.in_flight, c.max_children, c.failure_count, c.file_id,
    c.thumbnail_file_id, c.created_at
FROM unnest(:run_ids::uuid[]) AS wanted (id)
JOIN pipeline_runs r ON r.tenant_id = :tenant_id AND r.id = wanted.id
CROSS JOIN LATERAL (
    SELECT id, run_id, number, step_id, position, parent_id, job_id, output_index, seed, elo, votes, status,
        rejected_with, rejected_by, child_count, in_flight, max_children, failure_count, file_id, thumbnail_file_id,
        created_at
    FROM candidates
    WHERE run_id = r.id AND position = r.steps AND status = 'active' AND tenant_id = r.tenant_id
    ORDER BY elo DESC, number LIMIT :limit
) c
ORDER BY c.run_id, c.elo DESC, c.number

-- name: judged_pairs
-- Pairs that the user has judged, whose candidates are both still active.
SELECT count(*) FROM (
    SELECT winner_id, loser_id FROM votes
    WHERE run_id = :run_id AND tenant_id = :tenant_id AND user_id = :user_id AND undone_at IS NULL
    ORDER BY id DESC LIMIT :most
) v
JOIN candidates one ON one.tenant_id = :tenant_id AND one.id = v.winner_id AND one.status = 'active'
JOIN candidates other ON other.tenant_id = :tenant_id AND other.id = v.loser_id AND other.status = 'active'
WHERE :position::integer IS NULL OR one.position = :position

-- name: active_of_steps
SELECT position, count(*) AS active FROM candidates
WHERE run_id = :run_id AND status = 'active' AND tenant_id = :tenant_id
GROUP BY position

-- name: branch_size
-- Number of candidates that a kill would reject, or that a restore would restore. Counts up to `most` candidates.
WITH RECURSIVE branch AS (
    SELECT id, status, rejected_with FROM candidates WHERE tenant_id = :tenant_id AND id = :candidate_id
    UNION ALL
    SELECT child.id, child.status, child.rejected_with FROM branch CROSS JOIN LATERAL (
        SELECT id, status, rejected_with FROM candidates
        WHERE parent_id = branch.id AND tenant_id = :tenant_id
    ) child
)
SELECT count(*) FILTER (WHERE status = 'active') AS rejects,
    count(*) FILTER (WHERE rejected_with = :candidate_id) AS restores, count(*) > :most AS has_more
FROM (SELECT status, rejected_with FROM branch LIMIT :most + 1) counted

-- name: branch_jobs
-- Active jobs that a kill of the candidate would cancel, and the tokens that come back. A run has few open slots, so
-- each is followed up to its base. The share that a running job keeps is computed as a cancel computes it.
WITH RECURSIVE ancestry AS (
    SELECT s.job_id, s.parent_id AS ancestor_id FROM candidate_slots s
    WHERE s.run_id = :run_id AND s.status = 'open' AND s.tenant_id = :tenant_id AND s.parent_id IS NOT NULL
    UNION ALL
    SELECT ancestry.job_id, parent.parent_id FROM ancestry CROSS JOIN LATERAL (
        SELECT parent_id FROM candidates WHERE tenant_id = :tenant_id AND id = ancestry.ancestor_id LIMIT 1
    ) parent
    WHERE ancestry.ancestor_id <> :candidate_id AND parent.parent_id IS NOT NULL
)
SELECT count(*) AS jobs, coalesce(sum(job.cost - floor(job.cost * job.spent)), 0)::bigint AS refund
FROM ancestry CROSS JOIN LATERAL (
    SELECT cost, CASE WHEN status = 'processing' AND refund_on_cancel = 'unspent'
        THEN job_spent(tenant_id, id, charge_cycle, lease_seq, started_at, run_limit_seconds, actor IS NOT NULL)
        ELSE 0 END AS spent
    FROM ai_jobs
    WHERE tenant_id = :tenant_id AND id = ancestry.job_id AND status IN ('pending', 'queued', 'processing') LIMIT 1
) job
WHERE ancestry.ancestor_id = :candidate_id

-- name: gates_of_run
-- Steps that need an approval, with the candidates that may get children, and how many children these may get. Counts
-- up to `most` candidates, or as many as may become parents.
SELECT s.id AS step_id, approval.approved_at, waiting.parents, waiting.children
FROM pipeline_runs r
JOIN pipeline_steps s ON s.pipeline_id = r.pipeline_id AND s.version = r.pipeline_version
    AND s.tenant_id = r.tenant_id AND s.requires_approval
LEFT JOIN step_approvals approval
    ON approval.tenant_id = r.tenant_id AND approval.run_id = r.id AND approval.step_id = s.id
CROSS JOIN LATERAL (
    SELECT count(*) AS parents, coalesce(sum(places), 0) AS children FROM (
        SELECT c.max_children - c.child_count - c.in_flight AS places FROM candidates c
        WHERE c.run_id = r.id AND c.position = s.position AND c.tenant_id = r.tenant_id AND candidate_is_eligible(c)
        ORDER BY c.number
        LIMIT least(:most::integer, CASE WHEN r.strategy = 'breadth_first' THEN s.top_k END)
    ) eligible
) waiting
WHERE r.tenant_id = :tenant_id AND r.id = :run_id
ORDER BY s.position

-- name: spending_bounds
-- From the start of the run to its end, or until now, and the tokens that its active jobs hold.
SELECT r.created_at AS since, coalesce(r.ended_at, clock_timestamp()) AS until, r.budget, r.spent,
    (SELECT coalesce(sum(cost), 0)::bigint FROM (
         SELECT cost FROM candidate_slots WHERE run_id = r.id AND status = 'open' AND tenant_id = r.tenant_id
         UNION ALL
         SELECT cost FROM run_replays WHERE run_id = r.id AND settled_at IS NULL AND tenant_id = r.tenant_id
     ) open_job) AS held
FROM pipeline_runs r
WHERE r.tenant_id = :tenant_id AND r.id = :run_id AND r.user_id = :user_id

-- name: spending_of_run
-- Tokens that were used up, by step and by part of the time. A job that failed or was canceled may have kept some. A
-- replay belongs to the step of its candidate.
SELECT s.position,
    least(floor(extract(epoch FROM s.settled_at - :since) / :seconds::float8)::integer, :parts::integer - 1) AS part,
    sum(s.tokens)::bigint AS tokens, count(*) FILTER (WHERE s.is_made) AS jobs
FROM (
    SELECT position, settled_at, status = 'made' AS is_made,
        CASE WHEN status = 'made' THEN cost ELSE cost - wallet_refunded(tenant_id, job_id, 1) END AS tokens
    FROM candidate_slots
    WHERE tenant_id = :tenant_id AND run_id = :run_id AND settled_at IS NOT NULL
    UNION ALL
    SELECT r.position, r.settled_at, job.is_made, r.cost - wallet_refunded(r.tenant_id, r.job_id, r.charge_cycle)
    FROM run_replays r CROSS JOIN LATERAL (
        SELECT status = 'completed' AND charge_cycle = r.charge_cycle AS is_made FROM ai_jobs
        WHERE tenant_id = r.tenant_id AND id = r.job_id LIMIT 1
    ) job
    WHERE r.tenant_id = :tenant_id AND r.run_id = :run_id AND r.settled_at IS NOT NULL
) s
GROUP BY s.position, part
ORDER BY s.position, part
