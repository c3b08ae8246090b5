-- database: pool
-- Ended runs that are deleted: marked first, then removed in batches.

-- name: mark_run_deleted
-- The key of the request is free again: a repeated request would otherwise return a run that no user sees.
UPDATE pipeline_runs SET deleted_at = clock_timestamp(), due_at = clock_timestamp(), idempotency_key = NULL,
    request_hash = NULL, request_fields = NULL
WHERE tenant_id = :tenant_id AND id = :run_id

-- name: mark_old_runs
WITH old_run AS MATERIALIZED (
    SELECT tenant_id, id FROM pipeline_runs
    WHERE ended_at IS NOT NULL AND deleted_at IS NULL
      AND ended_at < (SELECT coalesce(:now, clock_timestamp()) - make_interval(days => :days::integer))
    ORDER BY ended_at LIMIT :limit
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE pipeline_runs r SET deleted_at = clock_timestamp(), due_at = clock_timestamp(), idempotency_key = NULL,
    request_hash = NULL, request_fields = NULL
FROM old_run
WHERE r.tenant_id = old_run.tenant_id AND r.id = old_run.id

-- name: claim_deleted_run
-- Other control planes leave the run alone until this time. If this one crashes, another one continues then.
WITH due_run AS MATERIALIZED (
    SELECT tenant_id, id FROM pipeline_runs
    WHERE deleted_at IS NOT NULL AND due_at <= (SELECT clock_timestamp())
    ORDER BY due_at LIMIT 1
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE pipeline_runs r SET due_at = clock_timestamp() + make_interval(secs => :later_seconds::double precision)
FROM due_run
WHERE r.tenant_id = due_run.tenant_id AND r.id = due_run.id
RETURNING r.tenant_id, r.id, r.user_id

-- name: has_open_slots
SELECT EXISTS (
    SELECT FROM candidate_slots
    WHERE run_id = :run_id AND status = 'open' AND tenant_id IS NOT DISTINCT FROM :tenant_id)

-- name: delete_votes_of_run
WITH vote AS MATERIALIZED (
    SELECT tenant_id, id FROM votes
    WHERE run_id = :run_id AND tenant_id IS NOT DISTINCT FROM :tenant_id ORDER BY id LIMIT :limit
)
DELETE FROM votes v USING vote WHERE v.tenant_id = vote.tenant_id AND v.id = vote.id

-- name: delete_kills_of_run
DELETE FROM branch_kills WHERE run_id = :run_id AND tenant_id IS NOT DISTINCT FROM :tenant_id

-- name: delete_approvals_of_run
DELETE FROM step_approvals WHERE tenant_id = :tenant_id AND run_id = :run_id

-- name: last_jobs_of_run
-- Children are removed before their parents: a child was drawn after its parent was made.
SELECT job_id FROM candidate_slots
WHERE tenant_id = :tenant_id AND run_id = :run_id
ORDER BY draw DESC LIMIT :limit

-- name: delete_candidates
WITH slot AS (
    DELETE FROM candidate_slots WHERE tenant_id = :tenant_id AND job_id = ANY (:job_ids::uuid[])
)
DELETE FROM candidates WHERE tenant_id = :tenant_id AND job_id = ANY (:job_ids)

-- name: delete_run
-- Its replays are jobs of their own. They stay; only their share of the budget goes with the run.
DELETE FROM pipeline_runs WHERE tenant_id = :tenant_id AND id = :run_id AND deleted_at IS NOT NULL
