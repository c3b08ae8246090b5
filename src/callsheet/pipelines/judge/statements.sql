-- database: pool
-- The tenant is never NULL. IS NOT DISTINCT FROM compares it where children, slots and numbered candidates are found:
-- that fits no index, so the index of the other key is used. With =, plans used an index of the tenant or of steps, and
-- read all its rows; test_candidate_plans.py fails then.
-- Reads for the pages of a run. They use ordinary connections, except where a comment says otherwise.

-- name: own_run
SELECT id, steps, pipeline_id, pipeline_version, name, target_folder, status, strategy, seed, prompt, variables,
    max_children, target_leaves, budget, spent
FROM pipeline_runs
WHERE tenant_id = :tenant_id AND id = :run_id AND user_id = :user_id AND deleted_at IS NULL

-- name: lock_run
-- Submitting a job of the run and accepting its result take this lock first: the holder sees the tree as it is.
SELECT id FROM pipeline_runs
WHERE tenant_id = :tenant_id AND id = :run_id AND user_id = :user_id AND deleted_at IS NULL
FOR NO KEY UPDATE

-- name: own_candidate
-- A candidate belongs to the user of its run. Both rows are read by their keys.
SELECT c.id, c.run_id, c.number, c.step_id, c.position, c.parent_id, c.job_id, c.output_index, c.seed, c.elo, c.votes,
    c.status, c.rejected_with, c.rejected_by, c.child_count, c.in_flight, c.max_children, c.failure_count, c.file_id,
    c.thumbnail_file_id, c.created_at
FROM candidates c CROSS JOIN LATERAL (
    SELECT user_id FROM pipeline_runs
    WHERE tenant_id = c.tenant_id AND id = c.run_id AND deleted_at IS NULL LIMIT 1
) run
WHERE c.tenant_id = :tenant_id AND c.id = :candidate_id AND run.user_id = :user_id

-- name: steps_of_run
SELECT s.id, s.position, s.name, s.slug, s.workflow, s.effect_id, s.payload, s."values", s.needs_run_prompt,
    s.needs_parent_image_path, s.needs_run_variables, s.max_children, s.top_k, s.requires_approval
FROM pipeline_runs r CROSS JOIN LATERAL (
    SELECT id, position, name, slug, workflow, effect_id, payload, "values", needs_run_prompt, needs_parent_image_path,
        needs_run_variables, max_children, top_k, requires_approval
    FROM declared_steps
    WHERE pipeline_id = r.pipeline_id AND version = r.pipeline_version AND tenant_id = r.tenant_id
    ORDER BY position LIMIT 1000
) s
WHERE r.tenant_id = :tenant_id AND r.id = :run_id
ORDER BY s.position

-- name: contenders
-- The candidates of each step with the fewest votes.
SELECT c.id, c.number, c.position, c.elo, c.votes
FROM generate_series(1, :steps::integer) AS step (position) CROSS JOIN LATERAL (
    SELECT id, number, position, elo, votes FROM candidates
    WHERE run_id = :run_id AND position = step.position AND status = 'active'
      AND tenant_id = :tenant_id
    ORDER BY votes, number LIMIT :limit
) c
WHERE :position::integer IS NULL OR step.position = :position

-- name: compared_pairs
-- Each candidate is looked up as the lesser of a pair. The greater one is compared afterwards: both in the index
-- would need as many lookups as there are pairs.
SELECT vote.winner_id, vote.loser_id FROM unnest(:candidate_ids::uuid[]) AS one (id) CROSS JOIN LATERAL (
    SELECT winner_id, loser_id FROM votes
    WHERE user_id = :user_id AND least(winner_id, loser_id) = one.id AND undone_at IS NULL
      AND tenant_id = :tenant_id
    -- Keeps the lookup per candidate: a join of all votes of the user with all candidates took 0.2 s.
    OFFSET 0
) vote
WHERE greatest(vote.winner_id, vote.loser_id) = ANY (:candidate_ids::uuid[])

-- name: lock_pair
-- In key order, as all statements lock candidates: two votes on the same pair cannot deadlock.
SELECT id, position, elo, status FROM candidates
WHERE tenant_id = :tenant_id AND id = ANY (:candidate_ids::uuid[]) AND run_id = :run_id
ORDER BY id FOR NO KEY UPDATE

-- part: vote_columns
id, run_id, winner_id, loser_id, verdict, elo_change, both_change, created_at

-- name: add_vote
-- Returns no row if the user has voted on this pair before.
INSERT INTO votes (tenant_id, id, run_id, user_id, winner_id, loser_id, verdict, elo_change, both_change)
VALUES (:tenant_id, :vote_id, :run_id, :user_id, :winner_id, :loser_id, :verdict, :elo_change, :both_change)
ON CONFLICT (user_id, least(winner_id, loser_id), greatest(winner_id, loser_id), tenant_id) WHERE undone_at IS NULL
DO NOTHING
RETURNING {vote_columns}

-- name: vote_on_pair
SELECT {vote_columns} FROM votes
WHERE user_id = :user_id AND least(winner_id, loser_id) = least(:winner_id::uuid, :loser_id::uuid)
  AND greatest(winner_id, loser_id) = greatest(:winner_id::uuid, :loser_id::uuid) AND undone_at IS NULL
  AND tenant_id = :tenant_id

-- name: move_elo
-- `votes` is 1 for a vote and -1 for a vote that is undone.
UPDATE candidates SET votes = votes + :votes,
    elo = elo + :votes * (:both_change::integer
        + CASE WHEN id = :winner_id THEN :elo_change::integer ELSE -:elo_change::integer END)
WHERE tenant_id = :tenant_id AND id IN (:winner_id, :loser_id)

-- name: find_vote
SELECT {vote_columns} FROM votes
WHERE tenant_id = :tenant_id AND id = :vote_id AND run_id = :run_id AND user_id = :user_id AND undone_at IS NULL

-- name: undo_vote
UPDATE votes SET undone_at = clock_timestamp()
WHERE tenant_id = :tenant_id AND id = :vote_id AND undone_at IS NULL
RETURNING {vote_columns}

-- name: list_votes
SELECT {vote_columns} FROM votes
WHERE run_id = :run_id AND tenant_id = :tenant_id
  AND id < coalesce(:before, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid) AND undone_at IS NULL
ORDER BY id DESC LIMIT :limit

-- name: reject_branch
-- The run is locked, so no candidate is added to the branch meanwhile. Candidates are locked in key order, as votes
-- do. At most `:max_rows` are rejected, from the root down, so that the others are descendants of a rejected candidate.
WITH RECURSIVE branch AS (
    SELECT id, status FROM candidates WHERE tenant_id = :tenant_id AND id = :candidate_id
    UNION ALL
    SELECT child.id, child.status FROM branch CROSS JOIN LATERAL (
        SELECT id, status FROM candidates WHERE parent_id = branch.id AND tenant_id IS NOT DISTINCT FROM :tenant_id
    ) child
), locked_candidate AS MATERIALIZED (
    SELECT found.id FROM (
        SELECT id FROM (SELECT id FROM branch WHERE status = 'active' LIMIT :max_rows) piece ORDER BY id
    ) ordered CROSS JOIN LATERAL (
        -- Only the key is compared: with the status, a plan that was made on an empty table used an index of active
        -- candidates.
        SELECT id FROM candidates WHERE tenant_id = :tenant_id AND id = ordered.id LIMIT 1 FOR NO KEY UPDATE
    ) found
), rejected_candidate AS (
    UPDATE candidates SET status = 'rejected', rejected_at = clock_timestamp(), rejected_by = :user_id,
        rejected_with = :candidate_id
    WHERE tenant_id = :tenant_id AND id = ANY (ARRAY (SELECT id FROM locked_candidate))
    RETURNING parent_id
), updated_run AS (
    UPDATE pipeline_runs
    SET active_bases = active_bases - (SELECT count(*) FROM rejected_candidate WHERE parent_id IS NULL)
    WHERE tenant_id = :tenant_id AND id = :run_id
)
SELECT count(*) FROM rejected_candidate

-- name: remember_kill
INSERT INTO branch_kills (tenant_id, candidate_id, run_id, user_id)
VALUES (:tenant_id, :candidate_id, :run_id, :user_id)
ON CONFLICT (tenant_id, candidate_id) DO UPDATE SET touched_at = clock_timestamp()

-- name: forget_kill
DELETE FROM branch_kills WHERE tenant_id = :tenant_id AND candidate_id = :candidate_id

-- name: kills_left
-- Branch kills that a request has left unfinished.
SELECT tenant_id, candidate_id, run_id, user_id FROM branch_kills
WHERE touched_at < clock_timestamp() - make_interval(secs => :left_seconds)
ORDER BY tenant_id, candidate_id LIMIT :limit

-- name: kill_under_way
SELECT true FROM branch_kills WHERE tenant_id = :tenant_id AND candidate_id = :candidate_id

-- name: restore_branch
-- The run is locked. Restores the candidate and all descendants that were rejected with it, also those that were
-- created later. Descendants that were killed on their own stay rejected.
WITH RECURSIVE branch AS (
    SELECT id FROM candidates WHERE tenant_id = :tenant_id AND id = :candidate_id
    UNION ALL
    SELECT child.id FROM branch CROSS JOIN LATERAL (
        SELECT id, rejected_with FROM candidates
        WHERE parent_id = branch.id AND tenant_id IS NOT DISTINCT FROM :tenant_id
    ) child
    WHERE child.rejected_with = :candidate_id
), locked_candidate AS MATERIALIZED (
    SELECT found.id FROM (SELECT id FROM branch ORDER BY id) ordered CROSS JOIN LATERAL (
        SELECT id FROM candidates WHERE tenant_id = :tenant_id AND id = ordered.id LIMIT 1 FOR NO KEY UPDATE
    ) found
), restored_candidate AS (
    UPDATE candidates SET status = 'active', rejected_at = NULL, rejected_by = NULL, rejected_with = NULL
    WHERE tenant_id = :tenant_id AND id = ANY (ARRAY (SELECT id FROM locked_candidate))
    RETURNING parent_id
), updated_run AS (
    UPDATE pipeline_runs
    SET active_bases = active_bases + (SELECT count(*) FROM restored_candidate WHERE parent_id IS NULL)
    WHERE tenant_id = :tenant_id AND id = :run_id
)
SELECT count(*) FROM restored_candidate

-- name: announce_run
-- The run is due: the scheduler may choose another parent now.
UPDATE pipeline_runs SET due_at = clock_timestamp(), updated_at = clock_timestamp()
WHERE tenant_id = :tenant_id AND id = :run_id

-- name: jobs_of_rejected
-- Active jobs for rejected parents. A run has few open slots, however many candidates it has.
SELECT s.job_id FROM candidate_slots s CROSS JOIN LATERAL (
    SELECT status FROM candidates WHERE tenant_id = s.tenant_id AND id = s.parent_id LIMIT 1
) parent CROSS JOIN LATERAL (
    SELECT status FROM ai_jobs WHERE tenant_id = s.tenant_id AND id = s.job_id LIMIT 1
) job
WHERE s.run_id = :run_id AND s.status = 'open' AND s.tenant_id IS NOT DISTINCT FROM :tenant_id
  AND parent.status = 'rejected' AND job.status IN ('pending', 'queued', 'processing')
ORDER BY s.job_id

-- name: jobs_of_rejected_anywhere
-- The same in all runs of the database, for kills that crashed.
SELECT s.tenant_id, s.job_id FROM candidate_slots s CROSS JOIN LATERAL (
    SELECT status FROM candidates WHERE tenant_id = s.tenant_id AND id = s.parent_id LIMIT 1
) parent CROSS JOIN LATERAL (
    SELECT status FROM ai_jobs WHERE tenant_id = s.tenant_id AND id = s.job_id LIMIT 1
) job
WHERE s.status = 'open' AND parent.status = 'rejected' AND job.status IN ('pending', 'queued', 'processing')
ORDER BY s.run_id LIMIT :limit

-- name: approve_step
-- The approval of the first user is kept.
INSERT INTO step_approvals (tenant_id, run_id, step_id, user_id) VALUES (:tenant_id, :run_id, :step_id, :user_id)
ON CONFLICT (tenant_id, run_id, step_id) DO NOTHING

-- name: get_approval
SELECT run_id, step_id, approved_at FROM step_approvals
WHERE tenant_id = :tenant_id AND run_id = :run_id AND step_id = :step_id

-- part: candidate_columns
id, run_id, number, step_id, position, parent_id, job_id, output_index, seed, elo, votes, status, rejected_with,
rejected_by, child_count, in_flight, max_children, failure_count, file_id, thumbnail_file_id, created_at

-- name: list_candidates
-- Newest first, by the number that the run gave them.
SELECT {candidate_columns} FROM candidates
WHERE run_id = :run_id AND tenant_id = :tenant_id
  AND number < coalesce(:before, 2147483647) AND (:status::text IS NULL OR status = :status)
ORDER BY number DESC LIMIT :limit

-- name: list_candidates_of_step
SELECT {candidate_columns} FROM candidates
WHERE run_id = :run_id AND position = :position AND tenant_id = :tenant_id
  AND number < coalesce(:before, 2147483647) AND (:status::text IS NULL OR status = :status)
ORDER BY number DESC LIMIT :limit

-- name: list_rejected
-- Rejected candidates have an index: if there are few, a list of all candidates would read many rows for nothing.
SELECT {candidate_columns} FROM candidates
WHERE run_id = :run_id AND status = 'rejected' AND tenant_id = :tenant_id
  AND number < coalesce(:before, 2147483647) AND (:position::integer IS NULL OR position = :position)
ORDER BY number DESC LIMIT :limit

-- name: list_children
-- At most max_children, and surplus ones: one job may make several images.
SELECT {candidate_columns} FROM candidates
WHERE parent_id = :parent_id AND tenant_id = :tenant_id AND run_id = :run_id
  AND number < coalesce(:before, 2147483647) AND (:status::text IS NULL OR status = :status)
ORDER BY number DESC LIMIT :limit

-- name: best_candidates
SELECT {candidate_columns} FROM candidates
WHERE run_id = :run_id AND position = :position AND status = 'active' AND tenant_id = :tenant_id
ORDER BY elo DESC, number LIMIT :limit

-- name: candidates_by_ids
SELECT {candidate_columns} FROM candidates
WHERE tenant_id = :tenant_id AND id = ANY (:candidate_ids::uuid[])

-- name: exported_candidates
-- In the order of creation. `last`: the newest candidate when the export started. With tenant_id = … the planner
-- chooses the index candidates_of_step: a page of 50 read 3206 buffers instead of 5 (test_candidate_plans.py).
SELECT c.id, c.number, c.position, c.parent_id, c.job_id, c.output_index, c.seed, c.elo, c.votes, c.status,
    c.rejected_with, c.rejected_by, c.child_count, c.failure_count, c.created_at, f.path, f.disk, f.name, f.mime_type,
    f.size, f.sha256
FROM (
    SELECT tenant_id, id, number, position, parent_id, job_id, output_index, seed, elo, votes, status, rejected_with,
        rejected_by, child_count, failure_count, created_at, file_id
    FROM candidates
    WHERE run_id = :run_id AND tenant_id IS NOT DISTINCT FROM :tenant_id AND number > :after AND number <= :last
      AND (:status::text IS NULL OR status = :status)
    ORDER BY number LIMIT :limit
) c
LEFT JOIN LATERAL (
    SELECT path, disk, name, mime_type, size, sha256 FROM files
    WHERE tenant_id = c.tenant_id AND id = c.file_id AND status = 'ready' AND deleted_at IS NULL LIMIT 1
) f ON true
ORDER BY c.number

-- name: last_number
SELECT coalesce(max(number), 0) AS last, clock_timestamp() AS now FROM candidates
WHERE run_id = :run_id AND tenant_id = :tenant_id

-- name: ancestors
-- The candidate and its ancestors, from the base down, each with the job that made it.
WITH RECURSIVE ancestry AS (
    SELECT c.id, c.parent_id, 0 AS distance FROM candidates c WHERE c.tenant_id = :tenant_id AND c.id = :candidate_id
    UNION ALL
    SELECT parent.id, parent.parent_id, ancestry.distance + 1 FROM ancestry CROSS JOIN LATERAL (
        SELECT id, parent_id FROM candidates WHERE tenant_id = :tenant_id AND id = ancestry.parent_id LIMIT 1
    ) parent
)
SELECT c.id, c.number, c.status, c.step_id, c.job_id, c.seed, c.elo, c.votes, c.file_id, c.thumbnail_file_id,
    c.created_at, slot.draw, slot.lineage, job.kind, job.actor, job.effect_id, job.payload, job.cost, job.started_at,
    job.completed_at
FROM ancestry CROSS JOIN LATERAL (
    SELECT id, number, status, step_id, job_id, seed, elo, votes, file_id, thumbnail_file_id, created_at FROM candidates
    WHERE tenant_id = :tenant_id AND id = ancestry.id LIMIT 1
) c CROSS JOIN LATERAL (
    SELECT kind, actor, effect_id, payload, cost, started_at, completed_at FROM ai_jobs
    WHERE tenant_id = :tenant_id AND id = c.job_id LIMIT 1
) job LEFT JOIN LATERAL (
    SELECT draw, lineage FROM candidate_slots
    WHERE job_id = c.job_id AND tenant_id = :tenant_id LIMIT 1
) slot ON true
ORDER BY ancestry.distance DESC

-- name: job_of_candidate
SELECT kind, actor, queue_name, workflow_id, effect_id, max_attempts, lease_seconds, run_limit_seconds,
    input_file_ids, payload, cost
FROM ai_jobs
WHERE tenant_id = :tenant_id AND id = :job_id

-- name: due_thumbnails
SELECT c.tenant_id, c.id, c.file_id, c.thumbnail_due_at AS due_at, run.user_id, run.target_folder, f.path, f.disk,
    f.size, f.mime_type, preview.status AS preview_status
FROM (
    SELECT tenant_id, id, run_id, file_id, thumbnail_due_at FROM candidates
    WHERE thumbnail_due_at IS NOT NULL AND thumbnail_due_at <= (SELECT coalesce(:now, clock_timestamp()))
    ORDER BY thumbnail_due_at LIMIT :limit
) c CROSS JOIN LATERAL (
    SELECT user_id, target_folder FROM pipeline_runs
    WHERE tenant_id = c.tenant_id AND id = c.run_id AND deleted_at IS NULL LIMIT 1
) run LEFT JOIN LATERAL (
    SELECT path, disk, size, mime_type FROM files
    WHERE tenant_id = c.tenant_id AND id = c.file_id AND status = 'ready' AND deleted_at IS NULL LIMIT 1
) f ON true LEFT JOIN LATERAL (
    SELECT status FROM file_previews WHERE tenant_id = c.tenant_id AND file_id = c.file_id LIMIT 1
) preview ON true
ORDER BY c.thumbnail_due_at

-- name: claim_thumbnail
-- Other control planes skip the candidate until this time has passed. If the maker crashes, one of them tries again
-- then.
UPDATE candidates SET thumbnail_due_at = clock_timestamp() + make_interval(secs => :seconds::integer)
WHERE tenant_id = :tenant_id AND id = :candidate_id AND thumbnail_due_at = :due_at

-- name: give_up_thumbnail
UPDATE candidates SET thumbnail_due_at = NULL WHERE tenant_id = :tenant_id AND id = :candidate_id

-- name: keep_thumbnail
-- Writes the candidate's reference and the row of the file. If another control plane was faster, there is no row, and
-- HAVING skips the call.
WITH claimed_candidate AS (
    UPDATE candidates SET thumbnail_due_at = NULL, thumbnail_file_id = :file_id
    WHERE tenant_id = :tenant_id AND id = :candidate_id AND thumbnail_file_id IS NULL
    RETURNING tenant_id, job_id
)
SELECT media_follow(jsonb_agg(jsonb_build_object(
    'tenant_id', tenant_id, 'user_id', :user_id::uuid, 'job_id', job_id, 'outputs', :outputs::jsonb)))
FROM claimed_candidate
HAVING count(*) > 0

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
    ORDER BY id DESC LIMIT :max_rows
) v
JOIN candidates one ON one.tenant_id = :tenant_id AND one.id = v.winner_id AND one.status = 'active'
JOIN candidates other ON other.tenant_id = :tenant_id AND other.id = v.loser_id AND other.status = 'active'
WHERE :position::integer IS NULL OR one.position = :position

-- name: active_of_steps
SELECT position, count(*) AS active FROM candidates
WHERE run_id = :run_id AND status = 'active' AND tenant_id = :tenant_id
GROUP BY position
