-- database: pool

-- name: full_tenants
-- Tenants whose runs have as many jobs under way as a tenant may have. It reads every open slot, once for many runs.
SELECT tenant_id FROM candidate_slots WHERE status = 'open' GROUP BY tenant_id HAVING count(*) >= :in_total

-- name: claim_run
-- The run that was looked at longest ago; it goes to the end of the line. What another control plane looks at is passed over,
-- to save work: that nothing is started twice rests on the slots. Passed over too is what has a branch half killed, and the runs
-- of tenants that have as many jobs under way as they may: these keep their places.
WITH due AS MATERIALIZED (
    SELECT tenant_id, id, due_at FROM pipeline_runs r
    WHERE status = 'active' AND due_at <= (SELECT clock_timestamp()) AND tenant_id <> ALL (:full::uuid[])
      AND NOT EXISTS (SELECT FROM branch_kills k WHERE k.run_id = r.id AND k.tenant_id IS NOT DISTINCT FROM r.tenant_id)
    ORDER BY due_at LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE pipeline_runs r SET due_at = clock_timestamp() + make_interval(secs => :later_seconds)
FROM due WHERE r.tenant_id = due.tenant_id AND r.id = due.id
RETURNING r.tenant_id, r.id, r.user_id, r.pipeline_id, r.pipeline_version, r.steps, r.strategy, r.seed, r.draws,
    r.target_leaves, r.concurrency, r.budget, r.spent, r.prompt, r.variables, r.reason, r.reason_detail, r.due_at,
    due.due_at AS was_due_at

-- name: put_back_run
-- It was not its fault: it keeps its place in the line.
UPDATE pipeline_runs SET due_at = :due_at
WHERE tenant_id = :tenant_id AND id = :id AND status = 'active' AND due_at > :due_at

-- name: leave_run
-- It will be called. Not where that has happened since it was claimed.
UPDATE pipeline_runs SET due_at = clock_timestamp() + make_interval(secs => :later_seconds)
WHERE tenant_id = :tenant_id AND id = :id AND status = 'active' AND due_at = :due_at

-- name: look_again
UPDATE pipeline_runs SET due_at = clock_timestamp() WHERE tenant_id = :tenant_id AND id = :id AND status = 'active'

-- name: read_steps
-- Each step of a run with what choosing needs to know of it: one row of an index, and the few slots that are open. With
-- them the run's bases, as they are at that moment: a base that is neither in flight nor counted would be made again.
SELECT s.id, s.position, s.name, s.slug, s.workflow, s.effect_id, s.payload, s."values", s.needs_run_prompt, s.needs_parent_image_path,
    s.needs_run_variables, s.max_children, s.top_k, s.requires_approval,
    approval.is_approved IS NOT NULL AS is_approved, flight.in_flight,
    coalesce(any_parent.is_eligible, best_parent.is_eligible, false) AS has_eligible,
    (SELECT active_bases FROM pipeline_runs WHERE tenant_id = :tenant_id AND id = :run_id) AS active_bases
FROM (
    SELECT id, position, name, slug, workflow, effect_id, payload, "values", needs_run_prompt, needs_parent_image_path,
        needs_run_variables, max_children, top_k, requires_approval
    FROM pipeline_steps
    WHERE pipeline_id = :pipeline_id AND version = :version AND tenant_id IS NOT DISTINCT FROM :tenant_id
    ORDER BY position LIMIT 1000
) s
LEFT JOIN LATERAL (
    SELECT true AS is_approved FROM step_approvals
    WHERE tenant_id = :tenant_id AND run_id = :run_id AND step_id = s.id LIMIT 1
) approval ON true
CROSS JOIN LATERAL (
    SELECT count(*) AS in_flight FROM candidate_slots o
    WHERE o.run_id = :run_id AND o.status = 'open' AND o.position = s.position
      AND o.tenant_id IS NOT DISTINCT FROM :tenant_id
) flight
LEFT JOIN LATERAL (
    SELECT true AS is_eligible FROM candidates c
    WHERE c.run_id = :run_id AND c.position = s.position AND c.tenant_id IS NOT DISTINCT FROM :tenant_id
      AND candidate_is_eligible(c) AND NOT (:best_only AND s.top_k IS NOT NULL)
    ORDER BY c.number LIMIT 1
) any_parent ON true
LEFT JOIN LATERAL (
    -- The same as best_parents.
    WITH started AS MATERIALIZED (
        SELECT candidate_is_eligible(c) AS is_eligible FROM candidates c
        WHERE c.run_id = :run_id AND c.position = s.position AND c.status = 'active' AND c.slots > 0
          AND c.tenant_id IS NOT DISTINCT FROM :tenant_id AND :best_only AND s.top_k IS NOT NULL
          AND (NOT candidate_has_failed(c) OR c.child_count > 0)
        ORDER BY c.number LIMIT s.top_k
    ), best_untried AS (
        SELECT c.max_children FROM candidates c
        WHERE c.run_id = :run_id AND c.position = s.position AND c.status = 'active' AND c.slots = 0
          AND c.tenant_id IS NOT DISTINCT FROM :tenant_id AND :best_only AND s.top_k IS NOT NULL
          AND NOT candidate_has_failed(c)
        ORDER BY c.elo DESC, c.number LIMIT greatest(s.top_k - (SELECT count(*) FROM started), 0)
    )
    SELECT true AS is_eligible
    WHERE EXISTS (SELECT FROM started WHERE is_eligible) OR EXISTS (SELECT FROM best_untried WHERE max_children > 0)
) best_parent ON true
ORDER BY s.position

-- name: count_active_up_to
-- No further than needed. In the order of an index that has only active ones: the others may be many more.
SELECT count(*) FROM (
    SELECT FROM candidates
    WHERE run_id = :run_id AND position = :position AND status = 'active' AND tenant_id IS NOT DISTINCT FROM :tenant_id
    ORDER BY elo DESC, number LIMIT :most
) counted

-- name: eligible_parents
-- In the order they were made, which is part of the draw. As two lists: there may be many, and one is wanted.
SELECT array_agg(number) AS numbers, array_agg(elo) AS elos FROM (
    SELECT number, elo FROM candidates
    WHERE run_id = :run_id AND position = :position AND tenant_id IS NOT DISTINCT FROM :tenant_id
      AND candidate_is_eligible(candidates)
    ORDER BY number LIMIT :most
) parent

-- name: bounds_of_parents
-- What numbers are called between, and how high: the best of the step, which may be full, has at least as many points.
SELECT (
    SELECT number FROM candidates
    WHERE run_id = :run_id AND position = :position AND tenant_id IS NOT DISTINCT FROM :tenant_id
      AND candidate_is_eligible(candidates)
    ORDER BY number LIMIT 1
) AS first, (
    SELECT number FROM candidates
    WHERE run_id = :run_id AND position = :position AND tenant_id IS NOT DISTINCT FROM :tenant_id
      AND candidate_is_eligible(candidates)
    ORDER BY run_id DESC, position DESC, number DESC LIMIT 1
) AS last, (
    SELECT elo FROM candidates
    WHERE run_id = :run_id AND position = :position AND tenant_id IS NOT DISTINCT FROM :tenant_id AND status = 'active'
    ORDER BY elo DESC, number LIMIT 1
) AS highest

-- name: called_parents
SELECT parent.number, parent.elo FROM unnest(:numbers::integer[]) AS call (number) CROSS JOIN LATERAL (
    SELECT number, elo FROM candidates
    WHERE run_id = :run_id AND position = :position AND number = call.number
      AND tenant_id IS NOT DISTINCT FROM :tenant_id
      AND candidate_is_eligible(candidates)
    LIMIT 1
) parent

-- name: best_parents
-- The `top_k` candidates of a step that may become parents: first those for which a job was started (`started`), then the best of
-- the others (`best_untried`). A vote does not take away a place for which tokens were spent, or more than `top_k` would become
-- parents. A candidate that failed too often without a child takes no place.
WITH started AS MATERIALIZED (
    SELECT number, elo, candidate_is_eligible(candidates) AS is_eligible FROM candidates
    WHERE run_id = :run_id AND position = :position AND status = 'active' AND slots > 0
      AND tenant_id IS NOT DISTINCT FROM :tenant_id AND (NOT candidate_has_failed(candidates) OR child_count > 0)
    ORDER BY number LIMIT :top_k
), best_untried AS (
    SELECT number, elo FROM candidates
    WHERE run_id = :run_id AND position = :position AND status = 'active' AND slots = 0
      AND tenant_id IS NOT DISTINCT FROM :tenant_id AND NOT candidate_has_failed(candidates)
    ORDER BY elo DESC, number LIMIT greatest(:top_k - (SELECT count(*) FROM started), 0)
)
SELECT array_agg(number) AS numbers, array_agg(elo) AS elos FROM (
    SELECT number, elo FROM started WHERE is_eligible UNION ALL SELECT number, elo FROM best_untried ORDER BY number
) parent

-- name: numbered_candidate
-- Equal, said by a comparison of rows, which only the index of the numbers can answer.
SELECT id, number, slots, file_id FROM candidates
WHERE (run_id, number, tenant_id) >= (:run_id, :number, :tenant_id)
  AND (run_id, number, tenant_id) <= (:run_id, :number, :tenant_id)

-- name: block_run
-- Not where something has happened to it since it was claimed, which may be what it waits for.
UPDATE pipeline_runs SET reason = :reason, reason_detail = :reason_detail, updated_at = clock_timestamp(),
    due_at = clock_timestamp() + make_interval(secs => :later_seconds)
WHERE tenant_id = :tenant_id AND id = :id AND status = 'active' AND due_at = :due_at

-- name: finish_run
-- Whatever happens to a run makes it due at another time: only if nothing has happened since it was claimed.
UPDATE pipeline_runs r SET status = 'completed', reason = :reason, reason_detail = :reason_detail,
    ended_at = clock_timestamp(), updated_at = clock_timestamp()
WHERE r.tenant_id = :tenant_id AND r.id = :id AND r.status = 'active' AND r.due_at = :due_at
RETURNING id

-- name: strike_out
-- The run is locked. Of this candidate nothing can be made: it will never be a parent again.
WITH parent AS (
    UPDATE candidates c SET failure_count = c.strikes
    WHERE c.tenant_id = :tenant_id AND c.id = :candidate_id AND NOT candidate_has_failed(c)
    RETURNING (child_count + in_flight = 0)::integer AS died
)
UPDATE pipeline_runs r SET dead_branches = r.dead_branches + parent.died, due_at = clock_timestamp(),
    updated_at = clock_timestamp()
FROM parent WHERE r.tenant_id = :tenant_id AND r.id = :run_id
RETURNING r.base_failures, r.dead_branches, r.strikes, r.status

-- name: ended_jobs
-- Slots whose jobs have ended. They are open until their result is written, so a slot is its own cursor.
SELECT s.tenant_id, s.run_id, s.parent_id, s.step_id, s.position, s.job_id, s.seed, s.created_at AS submitted_at,
    job.status AS job_status, job.outputs, job.error_message, job.completed_at, step.slug AS step_slug,
    step.max_children AS step_max_children, run.user_id, run.target_folder, run.steps,
    run.max_children AS run_max_children
FROM candidate_slots s
CROSS JOIN LATERAL (
    SELECT status, result -> 'outputs' AS outputs, error ->> 'message' AS error_message, completed_at FROM ai_jobs
    WHERE tenant_id = s.tenant_id AND id = s.job_id AND completed_at IS NOT NULL LIMIT 1
) job
CROSS JOIN LATERAL (
    SELECT slug, max_children FROM pipeline_steps WHERE tenant_id = s.tenant_id AND id = s.step_id LIMIT 1
) step
CROSS JOIN LATERAL (
    SELECT user_id, target_folder, steps, max_children FROM pipeline_runs
    WHERE tenant_id = s.tenant_id AND id = s.run_id LIMIT 1
) run
WHERE s.status = 'open' AND s.job_id <> ALL (:left_alone::uuid[])
ORDER BY job.completed_at, s.run_id, s.draw LIMIT :limit

-- name: jobs_under_way
SELECT job_id FROM candidate_slots WHERE status = 'open' LIMIT :limit

-- name: jobs_of_canceled_runs
-- A cancel that crashed on its way has left them.
SELECT s.tenant_id, s.job_id FROM candidate_slots s
CROSS JOIN LATERAL (
    SELECT status FROM pipeline_runs WHERE tenant_id = s.tenant_id AND id = s.run_id LIMIT 1
) run
CROSS JOIN LATERAL (
    SELECT completed_at FROM ai_jobs WHERE tenant_id = s.tenant_id AND id = s.job_id LIMIT 1
) job
WHERE s.status = 'open' AND run.status = 'canceled' AND job.completed_at IS NULL
LIMIT :limit

-- name: lock_run_of_slot
-- Locks the run first, as all statements do; then the slot shows whether another control plane was faster.
SELECT id FROM pipeline_runs WHERE tenant_id = :tenant_id AND id = :run_id FOR NO KEY UPDATE

-- name: slot_is_open
-- By its job: a plan made while the table was empty took another index by the run alone, and read all of its slots.
SELECT true FROM candidate_slots
WHERE job_id = :job_id AND tenant_id IS NOT DISTINCT FROM :tenant_id AND status = 'open'

-- name: accept_candidates
-- The run is locked and the slot is open. What was made from a parent that was rejected meanwhile is rejected with it.
-- Every image becomes a candidate, but no parent has more children than it may: a job counts as one while it is under
-- way, and of what it brought those are kept that leave room for the others. The rest is born rejected, with itself.
WITH made AS MATERIALIZED (
    SELECT *, row_number() OVER (ORDER BY output_index)::integer AS place
    FROM jsonb_to_recordset(:made::jsonb) AS m (id uuid, output_index integer, file_id uuid, path text)
), room AS MATERIALIZED (
    SELECT greatest(max_children - child_count - in_flight + 1, 0) AS children FROM candidates
    WHERE tenant_id = :tenant_id AND id = :parent_id
), parent AS (
    UPDATE candidates SET in_flight = in_flight - 1,
        child_count = child_count + (SELECT count(*) FROM made WHERE place <= (SELECT children FROM room))
    WHERE tenant_id = :tenant_id AND id = :parent_id
    RETURNING status, rejected_with
), run AS (
    UPDATE pipeline_runs r SET candidates = r.candidates + (SELECT count(*) FROM made)::integer,
        active_bases = r.active_bases + CASE WHEN :parent_id::uuid IS NULL THEN (SELECT count(*) FROM made) ELSE 0 END,
        base_failures = CASE WHEN :parent_id::uuid IS NULL THEN 0 ELSE r.base_failures END,
        -- Where a branch is finished before the next is started, only a leaf shows that no step is broken.
        dead_branches = CASE WHEN :position = r.steps OR r.strategy = 'breadth_first' AND :position > 1 THEN 0
            ELSE r.dead_branches END,
        due_at = CASE WHEN r.status = 'active' THEN clock_timestamp() ELSE r.due_at END, updated_at = clock_timestamp()
    WHERE r.tenant_id = :tenant_id AND r.id = :run_id
    RETURNING r.candidates, r.strikes
), slot AS (
    UPDATE candidate_slots SET status = 'made', settled_at = clock_timestamp()
    WHERE job_id = :job_id AND tenant_id IS NOT DISTINCT FROM :tenant_id
), child AS (
    SELECT made.*, CASE WHEN made.place > room.children THEN made.id ELSE parent.rejected_with END AS rejected_with
    FROM made LEFT JOIN parent ON true LEFT JOIN room ON true
)
INSERT INTO candidates (tenant_id, id, run_id, number, step_id, position, parent_id, job_id, output_index, file_id, seed,
    max_children, strikes, status, rejected_at, rejected_with)
SELECT :tenant_id, child.id, :run_id, run.candidates - (SELECT count(*) FROM made)::integer + child.place,
    :step_id, :position, :parent_id, :job_id, child.output_index, child.file_id, :seed, :max_children,
    run.strikes, CASE WHEN child.rejected_with IS NULL THEN 'active' ELSE 'rejected' END,
    CASE WHEN child.rejected_with IS NOT NULL THEN clock_timestamp() END, child.rejected_with
FROM child CROSS JOIN run

-- name: move_files
-- Accepted files have other paths now.
SELECT files_move(:tenant_id, :job_id, :made::jsonb)

-- name: give_up_slot
-- The run is locked and the slot is open. What was refunded of a job's cost is not spent any more. A failure is a strike against its branch;
-- a branch that had no child when it was left alone counts as dead. A canceled job does not count as a failure.
WITH slot AS (
    UPDATE candidate_slots SET status = :status, settled_at = clock_timestamp()
    WHERE job_id = :job_id AND tenant_id IS NOT DISTINCT FROM :tenant_id
    RETURNING parent_id, :status = 'failed' AS is_failure
), parent AS (
    UPDATE candidates SET in_flight = in_flight - 1, failure_count = failure_count + (:status = 'failed')::integer
    WHERE tenant_id = :tenant_id AND id = :parent_id
    RETURNING :status = 'failed' AND failure_count = strikes AND child_count = 0 AS died
), counted AS (
    SELECT CASE WHEN :is_refunded THEN wallet_refunded(:tenant_id, :job_id, 1) ELSE 0 END AS cost,
        (slot.is_failure AND slot.parent_id IS NULL)::integer AS base_failed,
        coalesce((SELECT died FROM parent), false)::integer AS died
    FROM slot
)
UPDATE pipeline_runs r SET spent = r.spent - counted.cost, base_failures = r.base_failures + counted.base_failed,
    dead_branches = r.dead_branches + counted.died,
    due_at = CASE WHEN r.status = 'active' THEN clock_timestamp() ELSE r.due_at END, updated_at = clock_timestamp()
FROM counted WHERE r.tenant_id = :tenant_id AND r.id = :run_id
RETURNING r.base_failures, r.dead_branches, r.strikes, r.status

-- name: stop_run
UPDATE pipeline_runs SET status = 'paused', reason = :reason, reason_detail = :reason_detail,
    updated_at = clock_timestamp()
WHERE tenant_id = :tenant_id AND id = :run_id AND status = 'active'
