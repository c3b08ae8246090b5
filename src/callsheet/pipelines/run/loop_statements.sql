-- database: pool
-- The tenant is never NULL. IS NOT DISTINCT FROM compares it where slots are found: that fits no index, so the index of
-- the other key is used. With =, a plan that was made while the table was empty used an index of the tenant and read
-- all its rows; test_pipeline_plans.py fails then.

-- name: full_tenants
-- Tenants whose runs have reached the limit of active jobs of a tenant. It reads every open slot, once for many runs.
SELECT tenant_id FROM candidate_slots WHERE status = 'open' GROUP BY tenant_id HAVING count(*) >= :in_total

-- name: claim_run
-- Claims the run that was examined longest ago, and moves it to the end. Runs that another control plane examines are
-- skipped, to save work: the slots prevent that a job is started twice. Runs with an unfinished kill of a branch are
-- skipped too, and runs of tenants that have reached their limit of active jobs: these keep their places.
WITH due_run AS MATERIALIZED (
    SELECT tenant_id, id, due_at FROM pipeline_runs r
    WHERE status = 'active' AND due_at <= (SELECT clock_timestamp()) AND tenant_id <> ALL (:full::uuid[])
      AND NOT EXISTS (SELECT FROM branch_kills k WHERE k.run_id = r.id AND k.tenant_id = r.tenant_id)
    ORDER BY due_at LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE pipeline_runs r SET due_at = clock_timestamp() + make_interval(secs => :later_seconds)
FROM due_run
WHERE r.tenant_id = due_run.tenant_id AND r.id = due_run.id
RETURNING r.tenant_id, r.id, r.user_id, r.pipeline_id, r.pipeline_version, r.steps, r.strategy, r.seed, r.draws,
    r.target_leaves, r.concurrency, r.budget, r.spent, r.prompt, r.variables, r.key_id, r.reason, r.reason_detail,
    r.due_at, due_run.due_at AS was_due_at

-- name: requeue_run
-- The run could not start a job because of a limit of others, so it keeps its place in the line.
UPDATE pipeline_runs SET due_at = :due_at
WHERE tenant_id = :tenant_id AND id = :id AND status = 'active' AND due_at > :due_at

-- name: leave_run
-- The end of a job, or a user, makes the run due earlier. Changes nothing if that has happened since the run was
-- claimed.
UPDATE pipeline_runs SET due_at = clock_timestamp() + make_interval(secs => :later_seconds)
WHERE tenant_id = :tenant_id AND id = :id AND status = 'active' AND due_at = :due_at

-- name: make_run_due
UPDATE pipeline_runs SET due_at = clock_timestamp() WHERE tenant_id = :tenant_id AND id = :id AND status = 'active'

-- name: read_steps
-- Each step of a run with what a choice needs: whether it has an eligible candidate, and how many slots are open. The
-- number of the run's bases is read in the same snapshot: a base that is neither in flight nor counted would be made
-- again.
SELECT s.id, s.position, s.name, s.slug, s.workflow, s.effect_id, s.payload, s."values", s.needs_run_prompt,
    s.needs_parent_image_path, s.needs_run_variables, s.max_children, s.top_k, s.requires_approval,
    approval.is_approved IS NOT NULL AS is_approved, flight.in_flight,
    coalesce(any_parent.is_eligible, best_parent.is_eligible, false) AS has_eligible,
    (SELECT active_bases FROM pipeline_runs WHERE tenant_id = :tenant_id AND id = :run_id) AS active_bases
FROM (
    SELECT id, position, name, slug, workflow, effect_id, payload, "values", needs_run_prompt, needs_parent_image_path,
        needs_run_variables, max_children, top_k, requires_approval
    FROM declared_steps
    WHERE pipeline_id = :pipeline_id AND version = :version AND tenant_id = :tenant_id
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
    WHERE c.run_id = :run_id AND c.position = s.position AND c.tenant_id = :tenant_id
      AND candidate_is_eligible(c) AND NOT (:best_only AND s.top_k IS NOT NULL)
    ORDER BY c.number LIMIT 1
) any_parent ON true
LEFT JOIN LATERAL (
    -- The same as best_parents.
    WITH started_parent AS MATERIALIZED (
        SELECT candidate_is_eligible(c) AS is_eligible FROM candidates c
        WHERE c.run_id = :run_id AND c.position = s.position AND c.status = 'active' AND c.slots > 0
          AND c.tenant_id = :tenant_id AND :best_only AND s.top_k IS NOT NULL
          AND (NOT candidate_has_failed(c) OR c.child_count > 0)
        ORDER BY c.number LIMIT s.top_k
    ), best_untried_parent AS (
        SELECT c.max_children FROM candidates c
        WHERE c.run_id = :run_id AND c.position = s.position AND c.status = 'active' AND c.slots = 0
          AND c.tenant_id = :tenant_id AND :best_only AND s.top_k IS NOT NULL
          AND NOT candidate_has_failed(c)
        ORDER BY c.elo DESC, c.number LIMIT greatest(s.top_k - (SELECT count(*) FROM started_parent), 0)
    )
    SELECT true AS is_eligible
    WHERE EXISTS (SELECT FROM started_parent WHERE is_eligible)
       OR EXISTS (SELECT FROM best_untried_parent WHERE max_children > 0)
) best_parent ON true
ORDER BY s.position

-- name: count_active_up_to
-- Counts up to `:max_rows` only, in the order of an index of active candidates: the others may be many more.
SELECT count(*) FROM (
    SELECT FROM candidates
    WHERE run_id = :run_id AND position = :position AND status = 'active' AND tenant_id = :tenant_id
    ORDER BY elo DESC, number LIMIT :max_rows
) counted

-- name: eligible_parents
-- In the order of creation, which is part of the draw. As two arrays, because there may be many parents.
SELECT array_agg(number) AS numbers, array_agg(elo) AS elos FROM (
    SELECT number, elo FROM candidates
    WHERE run_id = :run_id AND position = :position AND tenant_id = :tenant_id
      AND candidate_is_eligible(candidates)
    ORDER BY number LIMIT :max_rows
) parent

-- name: bounds_of_parents
-- The range of numbers to sample, and the highest ELO of the step. The best candidate of the step need not be eligible.
SELECT (
    SELECT number FROM candidates
    WHERE run_id = :run_id AND position = :position AND tenant_id = :tenant_id
      AND candidate_is_eligible(candidates)
    ORDER BY number LIMIT 1
) AS first, (
    SELECT number FROM candidates
    WHERE run_id = :run_id AND position = :position AND tenant_id = :tenant_id
      AND candidate_is_eligible(candidates)
    ORDER BY run_id DESC, position DESC, number DESC LIMIT 1
) AS last, (
    SELECT elo FROM candidates
    WHERE run_id = :run_id AND position = :position AND tenant_id = :tenant_id AND status = 'active'
    ORDER BY elo DESC, number LIMIT 1
) AS highest

-- name: sampled_parents
-- Those of the drawn numbers that belong to eligible parents.
SELECT parent.number, parent.elo FROM unnest(:numbers::integer[]) AS sample (number) CROSS JOIN LATERAL (
    SELECT number, elo FROM candidates
    WHERE run_id = :run_id AND position = :position AND number = sample.number
      AND tenant_id = :tenant_id
      AND candidate_is_eligible(candidates)
    LIMIT 1
) parent

-- name: best_parents
-- The `top_k` candidates of a step that may become parents: first those for which a job was started (`started_parent`),
-- then the best of the others (`best_untried_parent`). A vote does not take away a place for which tokens were spent:
-- otherwise more than `top_k` candidates would become parents. A candidate that failed too often without a child takes
-- no place.
WITH started_parent AS MATERIALIZED (
    SELECT number, elo, candidate_is_eligible(candidates) AS is_eligible FROM candidates
    WHERE run_id = :run_id AND position = :position AND status = 'active' AND slots > 0
      AND tenant_id = :tenant_id AND (NOT candidate_has_failed(candidates) OR child_count > 0)
    ORDER BY number LIMIT :top_k
), best_untried_parent AS (
    SELECT number, elo FROM candidates
    WHERE run_id = :run_id AND position = :position AND status = 'active' AND slots = 0
      AND tenant_id = :tenant_id AND NOT candidate_has_failed(candidates)
    ORDER BY elo DESC, number LIMIT greatest(:top_k - (SELECT count(*) FROM started_parent), 0)
)
SELECT array_agg(number) AS numbers, array_agg(elo) AS elos FROM (
    SELECT number, elo FROM started_parent WHERE is_eligible
    UNION ALL
    SELECT number, elo FROM best_untried_parent
    ORDER BY number
) parent

-- name: numbered_candidate
-- Equality is written as a comparison of rows, which only the index of the numbers supports.
SELECT id, number, slots, file_id FROM candidates
WHERE (run_id, number, tenant_id) >= (:run_id, :number, :tenant_id)
  AND (run_id, number, tenant_id) <= (:run_id, :number, :tenant_id)

-- name: block_run
-- Keeps the reason why the run waits, and checks it again later. Every event of a run changes due_at. If it has changed
-- since the run was claimed, nothing is written: the event may be what the run waits for.
UPDATE pipeline_runs SET reason = :reason, reason_detail = :reason_detail, updated_at = clock_timestamp(),
    due_at = clock_timestamp() + make_interval(secs => :later_seconds)
WHERE tenant_id = :tenant_id AND id = :id AND status = 'active' AND due_at = :due_at

-- name: finish_run
-- Every event of a run changes due_at. The run is finished only if nothing has happened since it was claimed.
UPDATE pipeline_runs r SET status = 'completed', reason = :reason, reason_detail = :reason_detail,
    ended_at = clock_timestamp(), updated_at = clock_timestamp()
WHERE r.tenant_id = :tenant_id AND r.id = :id AND r.status = 'active' AND r.due_at = :due_at
RETURNING id

-- name: exclude_parent
-- The run is locked. No job can be made for this candidate: it is not a parent any more.
WITH excluded_parent AS (
    UPDATE candidates c SET failure_count = c.strikes
    WHERE c.tenant_id = :tenant_id AND c.id = :candidate_id AND NOT candidate_has_failed(c)
    RETURNING (child_count + in_flight = 0)::integer AS has_no_child
)
UPDATE pipeline_runs r SET dead_branches = r.dead_branches + excluded_parent.has_no_child, due_at = clock_timestamp(),
    updated_at = clock_timestamp()
FROM excluded_parent
WHERE r.tenant_id = :tenant_id AND r.id = :run_id
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
SELECT job_id
FROM candidate_slots
WHERE status = 'open'
UNION ALL
SELECT job_id
FROM run_replays
WHERE settled_at IS NULL
LIMIT :limit

-- name: ended_replays
-- Charge cycles of replays that have ended. A retry settles the cycle before it by itself.
SELECT r.tenant_id, r.job_id, r.charge_cycle
FROM run_replays r CROSS JOIN LATERAL (
    SELECT charge_cycle FROM ai_jobs
    WHERE tenant_id = r.tenant_id AND id = r.job_id AND completed_at IS NOT NULL LIMIT 1
) job
WHERE r.settled_at IS NULL AND job.charge_cycle = r.charge_cycle
LIMIT :limit

-- name: settle_replay
SELECT replay_settle(:tenant_id, :job_id, :charge_cycle)

-- name: jobs_of_canceled_runs
-- Jobs that a cancel of their run did not reach, because it crashed.
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
-- By its job. With the status in the condition, a plan that was made while the table was empty read all open slots.
SELECT status = 'open' FROM candidate_slots WHERE job_id = :job_id AND tenant_id IS NOT DISTINCT FROM :tenant_id

-- name: accept_candidates
-- The run is locked and the slot is open. Every image becomes a candidate. If the parent was rejected meanwhile, its
-- children are rejected with it. A parent has at most max_children children, and a job counts as one child while it
-- is active: images beyond that are created as rejected, with their own id in rejected_with.
WITH images AS MATERIALIZED (
    SELECT m.id, m.output_index, m.file_id, row_number() OVER (ORDER BY m.output_index)::integer AS place
    FROM jsonb_to_recordset(:made::jsonb) AS m (id uuid, output_index integer, file_id uuid)
), free_places AS MATERIALIZED (
    SELECT greatest(max_children - child_count - in_flight + 1, 0) AS children FROM candidates
    WHERE tenant_id = :tenant_id AND id = :parent_id
), updated_parent AS (
    UPDATE candidates SET in_flight = in_flight - 1,
        child_count = child_count + (SELECT count(*) FROM images WHERE place <= (SELECT children FROM free_places))
    WHERE tenant_id = :tenant_id AND id = :parent_id
    RETURNING status, rejected_with
), updated_run AS (
    UPDATE pipeline_runs r SET candidates = r.candidates + (SELECT count(*) FROM images)::integer,
        active_bases = r.active_bases
            + CASE WHEN :parent_id::uuid IS NULL THEN (SELECT count(*) FROM images) ELSE 0 END,
        base_failures = CASE WHEN :parent_id::uuid IS NULL THEN 0 ELSE r.base_failures END,
        -- If a run works depth-first, only a leaf shows that every step works.
        dead_branches = CASE WHEN :position = r.steps OR r.strategy = 'breadth_first' AND :position > 1 THEN 0
            ELSE r.dead_branches END,
        due_at = CASE WHEN r.status = 'active' THEN clock_timestamp() ELSE r.due_at END, updated_at = clock_timestamp()
    WHERE r.tenant_id = :tenant_id AND r.id = :run_id
    RETURNING r.candidates, r.strikes
), settled_slot AS (
    UPDATE candidate_slots SET status = 'made', settled_at = clock_timestamp()
    WHERE job_id = :job_id AND tenant_id IS NOT DISTINCT FROM :tenant_id
), children AS (
    SELECT images.id, images.output_index, images.file_id, images.place,
        CASE WHEN images.place > free_places.children THEN images.id
            ELSE updated_parent.rejected_with END AS rejected_with
    FROM images LEFT JOIN updated_parent ON true LEFT JOIN free_places ON true
)
INSERT INTO candidates (tenant_id, id, run_id, number, step_id, position, parent_id, job_id, output_index, file_id,
    seed, max_children, strikes, status, rejected_at, rejected_with)
SELECT :tenant_id, child.id, :run_id, run.candidates - (SELECT count(*) FROM images)::integer + child.place,
    :step_id, :position, :parent_id, :job_id, child.output_index, child.file_id, :seed, :max_children,
    run.strikes, CASE WHEN child.rejected_with IS NULL THEN 'active' ELSE 'rejected' END,
    CASE WHEN child.rejected_with IS NOT NULL THEN clock_timestamp() END, child.rejected_with
FROM children child CROSS JOIN updated_run run

-- name: move_files
-- Accepted files were copied to the folder of the run.
SELECT files_move(:tenant_id, :job_id, :made::jsonb)

-- name: give_up_slot
-- The run is locked and the slot is open. Refunded tokens of a job are not spent any more. A failure is a strike
-- against the parent; a parent that gets its last strike without a child is a dead branch. A canceled job does not
-- count as a failure.
WITH settled_slot AS (
    UPDATE candidate_slots SET status = :status, settled_at = clock_timestamp()
    WHERE job_id = :job_id AND tenant_id IS NOT DISTINCT FROM :tenant_id
    RETURNING parent_id, :status = 'failed' AS is_failure
), updated_parent AS (
    UPDATE candidates SET in_flight = in_flight - 1, failure_count = failure_count + (:status = 'failed')::integer
    WHERE tenant_id = :tenant_id AND id = :parent_id
    RETURNING :status = 'failed' AND failure_count = strikes AND child_count = 0 AS is_dead
), run_changes AS (
    SELECT CASE WHEN :is_refunded THEN wallet_refunded(:tenant_id, :job_id, 1) ELSE 0 END AS refunded_tokens,
        (slot.is_failure AND slot.parent_id IS NULL)::integer AS base_failures,
        coalesce((SELECT is_dead FROM updated_parent), false)::integer AS dead_branches
    FROM settled_slot slot
)
UPDATE pipeline_runs r SET spent = r.spent - run_changes.refunded_tokens,
    base_failures = r.base_failures + run_changes.base_failures,
    dead_branches = r.dead_branches + run_changes.dead_branches,
    due_at = CASE WHEN r.status = 'active' THEN clock_timestamp() ELSE r.due_at END, updated_at = clock_timestamp()
FROM run_changes
WHERE r.tenant_id = :tenant_id AND r.id = :run_id
RETURNING r.base_failures, r.dead_branches, r.strikes, r.status

-- name: stop_run
-- The scheduler does not look at it any more: `due_at` then is the time at which it stopped.
UPDATE pipeline_runs SET status = 'paused', reason = :reason, reason_detail = :reason_detail,
    due_at = clock_timestamp(), updated_at = clock_timestamp()
WHERE tenant_id = :tenant_id AND id = :run_id AND status = 'active'
