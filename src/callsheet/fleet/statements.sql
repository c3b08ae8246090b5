-- database: central
-- owns: comfyui_workers, fleet_tokens, gpu_fleets, removed_worker_tokens, worker_approvals, worker_audit_logs
-- owns: worker_drains, worker_sessions, worker_workflows, workflow_fleets, workflow_timings

-- name: authenticate
-- Finds each token by a unique index, as the current or the next token. For polls it also reads what a lease needs: the
-- active workflows and the worker's leases (rows of the queue, read here so that a poll needs one statement).
WITH asked AS MATERIALIZED (
    SELECT * FROM unnest(:hashes::bytea[], :for_poll::boolean[]) WITH ORDINALITY AS a (hash, for_poll, place)
)
SELECT asked.place, w.worker_id, w.session_id, w.stage, w.providers, w.names_providers, w.max_concurrency, w.is_approved,
    greatest(w.registered_concurrency, w.max_concurrency) AS registered_concurrency,
    EXISTS (SELECT FROM worker_drains r WHERE r.worker_id = w.worker_id) AS is_draining,
    w.rotation_id, w.next_token_hash, w.is_next, assigned.workflow_ids,
    held.ids AS held_ids, held.tokens AS held_tokens, held.polls AS held_polls, held.seconds AS held_seconds,
    held.heartbeated AS held_heartbeated, held.left_seconds AS held_left_seconds
FROM asked CROSS JOIN LATERAL (
    SELECT c.*, false AS is_next FROM comfyui_workers c
    WHERE c.token_hash = asked.hash
      AND (c.rotated_at IS NULL OR c.rotated_at > clock_timestamp() - make_interval(secs => :rotation_seconds))
    UNION ALL
    SELECT c.*, true FROM comfyui_workers c WHERE c.next_token_hash = asked.hash
) w
LEFT JOIN LATERAL (
    SELECT array_agg(given.workflow_id ORDER BY given.workflow_id) AS workflow_ids FROM (
        SELECT wf.workflow_id FROM gpu_fleets f JOIN workflow_fleets wf ON wf.fleet_id = f.id
        WHERE f.id = w.fleet_id AND f.is_active AND (NOT w.is_narrowed OR EXISTS (
            SELECT FROM worker_workflows ww WHERE ww.worker_id = w.worker_id AND ww.workflow_id = wf.workflow_id))
        UNION ALL
        SELECT ww.workflow_id FROM worker_workflows ww WHERE ww.worker_id = w.worker_id AND w.fleet_id IS NULL
    ) given JOIN workflows k ON k.id = given.workflow_id AND k.is_active
    -- Read once, by key; empty for a worker that did not report its environment.
    WHERE asked.for_poll AND given.workflow_id <> ALL (ARRAY (
        SELECT l.workflow_id FROM environment_lacks l WHERE l.digest = w.environment))
) assigned ON true
LEFT JOIN LATERAL (
    SELECT array_agg(d.dispatch_id ORDER BY d.dispatch_id) AS ids,
        array_agg(d.lease_token ORDER BY d.dispatch_id) AS tokens,
        array_agg(d.poll_id ORDER BY d.dispatch_id) AS polls,
        -- One timestamp for all rows, so that their order does not depend on when each row was read.
        array_agg(extract(epoch FROM statement_timestamp() - d.last_leased_at)::float8 ORDER BY d.dispatch_id) AS seconds,
        array_agg(d.heartbeat_at IS NOT NULL ORDER BY d.dispatch_id) AS heartbeated,
        array_agg(extract(epoch FROM d.lease_expires_at - statement_timestamp())::float8 ORDER BY d.dispatch_id)
            AS left_seconds
    FROM ai_job_dispatches d
    WHERE asked.for_poll AND d.worker_id = w.worker_id AND d.status = 'leased'
) held ON true

-- name: adopt_rotated_tokens
-- At its first use the next token becomes the current one, and the old token is invalid.
WITH used AS MATERIALIZED (
    SELECT worker_id FROM comfyui_workers WHERE next_token_hash = ANY (:hashes::bytea[])
    ORDER BY worker_id FOR NO KEY UPDATE
), adopted AS (
    UPDATE comfyui_workers w
    SET token_hash = w.next_token_hash, next_token_hash = NULL, rotation_id = NULL, rotated_at = NULL
    FROM used WHERE w.worker_id = used.worker_id AND w.next_token_hash = ANY (:hashes::bytea[])
    RETURNING w.worker_id, w.session_id
)
INSERT INTO worker_audit_logs (worker_id, session_id, event, actor)
SELECT worker_id, session_id, 'token_adopted', 'worker:' || worker_id FROM adopted

-- name: touch_workers
-- Locks in key order, like every statement that locks several workers.
WITH seen AS MATERIALIZED (
    SELECT * FROM unnest(:worker_ids::text[], :seconds_ago::double precision[]) AS s (worker_id, seconds_ago)
), locked AS MATERIALIZED (
    SELECT worker_id FROM comfyui_workers WHERE worker_id = ANY (:worker_ids::text[])
    ORDER BY worker_id FOR NO KEY UPDATE
)
UPDATE comfyui_workers w
SET last_seen_at = greatest(w.last_seen_at, clock_timestamp() - make_interval(secs => seen.seconds_ago))
FROM locked JOIN seen USING (worker_id)
WHERE w.worker_id = locked.worker_id AND w.worker_id = ANY (:worker_ids::text[])

-- name: set_concurrency
-- Only for the session that reported the number: a newer registration has its own.
UPDATE comfyui_workers SET max_concurrency = :max_concurrency
WHERE worker_id = :worker_id AND session_id = :session_id AND max_concurrency <> :max_concurrency

-- name: record_events
-- Writes lines of the log; for ended leases also the session's sums, the effect's last time and the workflow's average.
-- Rows are locked table by table and in key order, because several control planes do this at once.
WITH entry AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(:entries::jsonb) AS e (
        place integer, worker_id text, session_id bigint, event text, actor text, dispatch_id bigint, details jsonb,
        outcome text, busy_seconds double precision, effect_id uuid, workflow_id bigint, run_seconds double precision)
), logged AS (
    INSERT INTO worker_audit_logs (worker_id, session_id, event, actor, dispatch_id, details)
    SELECT worker_id, session_id, event, actor, dispatch_id, details FROM entry ORDER BY place
), worked AS MATERIALIZED (
    SELECT session_id, sum(busy_seconds) AS busy_seconds,
        count(*) FILTER (WHERE outcome = 'completed') AS completed,
        count(*) FILTER (WHERE outcome = 'failed') AS failed,
        count(*) FILTER (WHERE outcome = 'requeued') AS requeued
    FROM entry WHERE outcome IS NOT NULL AND session_id IS NOT NULL GROUP BY session_id
), session AS MATERIALIZED (
    SELECT id FROM worker_sessions WHERE id = ANY (ARRAY (SELECT session_id FROM worked)) ORDER BY id FOR NO KEY UPDATE
), added AS (
    UPDATE worker_sessions s SET
        busy_seconds = s.busy_seconds + worked.busy_seconds,
        jobs_completed = s.jobs_completed + worked.completed,
        jobs_failed = s.jobs_failed + worked.failed,
        jobs_requeued = s.jobs_requeued + worked.requeued
    FROM worked WHERE s.id = ANY (ARRAY (SELECT id FROM session)) AND s.id = worked.session_id
    RETURNING s.id
), timed AS MATERIALIZED (
    SELECT DISTINCT ON (effect_id) effect_id, run_seconds FROM entry
    WHERE outcome = 'completed' AND effect_id IS NOT NULL AND run_seconds IS NOT NULL
    ORDER BY effect_id, place DESC
), shown AS MATERIALIZED (
    SELECT effect_took(effect_id, run_seconds) FROM timed WHERE (SELECT count(*) FROM added) >= 0
)
-- The mean of the first ten runs; then each run weighs a tenth, so the average adapts to a faster machine in some jobs.
INSERT INTO workflow_timings AS known (workflow_id, average_seconds, samples)
SELECT workflow_id, avg(run_seconds), count(*) FROM entry
WHERE (SELECT count(*) FROM shown) >= 0 AND outcome = 'completed' AND run_seconds IS NOT NULL
GROUP BY workflow_id ORDER BY workflow_id
ON CONFLICT (workflow_id) DO UPDATE SET
    average_seconds = known.average_seconds + (excluded.average_seconds - known.average_seconds) * greatest(
        excluded.samples::float8 / (known.samples + excluded.samples), 1 - power(0.9, excluded.samples::float8)),
    samples = known.samples + excluded.samples,
    updated_at = clock_timestamp()

-- name: lock_registrations
-- Serializes registrations, because workers are counted before one is added.
SELECT pg_advisory_xact_lock(hashtextextended('callsheet registrations', 0))

-- name: find_fleet_to_join
-- Locks the fleet, so that it is not deleted while a worker joins it.
SELECT f.id, f.is_active, ARRAY (
        SELECT k.slug FROM workflow_fleets wf JOIN workflows k ON k.id = wf.workflow_id
        WHERE wf.fleet_id = f.id AND k.is_active ORDER BY k.slug) AS workflows
FROM gpu_fleets f WHERE f.slug = :slug AND f.stage = :stage FOR KEY SHARE OF f

-- name: find_fleet_of_token
-- Locks like find_fleet_to_join. The token is locked after its fleet, in the order in which a fleet is deleted.
SELECT f.id, f.slug, f.stage, f.is_active, ARRAY (
        SELECT k.slug FROM workflow_fleets wf JOIN workflows k ON k.id = wf.workflow_id
        WHERE wf.fleet_id = f.id AND k.is_active ORDER BY k.slug) AS workflows
FROM gpu_fleets f WHERE f.id = (SELECT t.fleet_id FROM fleet_tokens t WHERE t.token_hash = :token_hash) FOR KEY SHARE OF f

-- name: use_fleet_token
-- Waits for a concurrent revocation or rotation. After the wait the new row is checked, with the current time.
UPDATE fleet_tokens SET last_used_at = clock_timestamp(), last_used_by = :worker_id
WHERE token_hash = :token_hash AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > clock_timestamp())
RETURNING id, name

-- name: find_fleet_token
-- Whether a token is accepted now; checked before a body is read. A registration checks again, in its transaction.
SELECT token_hash FROM fleet_tokens
WHERE token_hash = :token_hash AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > clock_timestamp())

-- name: create_fleet_token
INSERT INTO fleet_tokens (fleet_id, name, prefix, token_hash, created_by, replaces)
VALUES (:fleet_id, :name, :prefix, :token_hash, :created_by, :replaces)
ON CONFLICT (replaces) DO NOTHING
RETURNING id

-- name: lock_fleet_token
SELECT t.id, t.fleet_id, t.name, t.revoked_at, t.expires_at <= clock_timestamp() AS has_expired
FROM fleet_tokens t WHERE t.id = :id AND (:fleet_id::bigint IS NULL OR t.fleet_id = :fleet_id) FOR NO KEY UPDATE

-- name: expire_fleet_token
UPDATE fleet_tokens SET expires_at = clock_timestamp() + make_interval(secs => :seconds) WHERE id = :id

-- name: revoke_fleet_token
-- A second revocation does not change revoked_at.
UPDATE fleet_tokens SET revoked_at = coalesce(revoked_at, clock_timestamp()) WHERE id = :id

-- name: list_fleet_tokens
SELECT t.id, t.fleet_id, f.slug AS fleet_slug, f.stage, t.name, t.prefix, t.replaces, t.created_by, t.created_at,
    t.expires_at, t.revoked_at, t.last_used_at, t.last_used_by,
    t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > clock_timestamp()) AS is_accepted,
    (SELECT count(*) FROM comfyui_workers w WHERE w.fleet_token_id = t.id AND w.revoked_at IS NULL) AS workers
FROM fleet_tokens t JOIN gpu_fleets f ON f.id = t.fleet_id
WHERE t.id < coalesce(:before, 9223372036854775807) AND (:id::bigint IS NULL OR t.id = :id)
  AND (:fleet_id::bigint IS NULL OR t.fleet_id = :fleet_id)
ORDER BY t.id DESC LIMIT :limit

-- name: find_fleet_token_for_operator
SELECT id FROM fleet_tokens WHERE id::text = :id_or_prefix OR prefix = :id_or_prefix

-- name: is_secret_of_revoked_worker
SELECT EXISTS (SELECT FROM comfyui_workers WHERE revoked_at IS NOT NULL AND secret_fingerprint = ANY (:fingerprints::bytea[]))

-- name: is_approved_by_person
SELECT EXISTS (SELECT FROM worker_approvals WHERE worker_id = :worker_id)

-- name: remember_approval
INSERT INTO worker_approvals (worker_id, approved_by) VALUES (:worker_id, :approved_by) ON CONFLICT (worker_id) DO NOTHING

-- name: forget_approval
DELETE FROM worker_approvals WHERE worker_id = :worker_id

-- name: find_workflows
SELECT id, slug, is_active FROM workflows WHERE slug = ANY (:slugs::text[]) ORDER BY slug

-- name: list_actor_workflows
SELECT slug FROM workflows WHERE starts_with(slug, 'actor:') ORDER BY slug

-- name: lock_worker
SELECT w.worker_id, w.session_id, w.registration_source, w.is_approved, w.revoked_at, w.rotation_id, w.fleet_id, w.fleet_token_id,
    extract(epoch FROM clock_timestamp() - w.last_seen_at)::float8 AS seen_seconds_ago,
    EXISTS (SELECT FROM worker_sessions s WHERE s.id = w.session_id AND s.ended_at IS NULL) AS in_session
FROM comfyui_workers w WHERE w.worker_id = :worker_id FOR NO KEY UPDATE OF w

-- name: count_other_workers
-- In-process workers do not count towards max_workers.
SELECT count(*) FROM comfyui_workers
WHERE revoked_at IS NULL AND worker_id <> :worker_id AND NOT starts_with(worker_id, :own_prefix)

-- name: end_session
UPDATE worker_sessions SET ended_at = clock_timestamp(), end_reason = :reason
WHERE worker_id = :worker_id AND ended_at IS NULL

-- name: session_of_lease
-- The open session of a worker, if it had started when the lease did.
SELECT id FROM worker_sessions
WHERE worker_id = :worker_id AND ended_at IS NULL
  AND started_at <= clock_timestamp() - make_interval(secs => :held_seconds::float8)

-- name: begin_session
INSERT INTO worker_sessions (worker_id, fleet_slug, stage, capacity_type, instance_type)
VALUES (:worker_id, :fleet_slug, :stage, :capacity_type, :instance_type)
RETURNING id

-- name: save_worker
-- Each registration decides is_approved anew. (Approvals by a person and drains have their own tables.)
INSERT INTO comfyui_workers AS known (
    worker_id, display_name, registration_source, fleet_id, stage, providers, names_providers, session_id, token_hash,
    max_concurrency, registered_concurrency, capabilities, capacity_type, instance_type, is_approved, is_narrowed,
    fleet_token_id, secret_fingerprint, asg_unverified, environment)
VALUES (:worker_id, :display_name, :registration_source, :fleet_id, :stage, :providers::text[], :names_providers,
    :session_id, :token_hash, :max_concurrency, :max_concurrency, :capabilities::jsonb, :capacity_type, :instance_type,
    :is_approved, :is_narrowed, :fleet_token_id, :secret_fingerprint, :asg_unverified, :environment)
ON CONFLICT (worker_id) DO UPDATE SET
    display_name = excluded.display_name,
    registration_source = excluded.registration_source,
    fleet_id = excluded.fleet_id,
    stage = excluded.stage,
    providers = excluded.providers,
    names_providers = excluded.names_providers,
    session_id = excluded.session_id,
    token_hash = excluded.token_hash,
    rotation_id = NULL,
    next_token_hash = NULL,
    rotated_at = NULL,
    max_concurrency = excluded.max_concurrency,
    registered_concurrency = excluded.registered_concurrency,
    capabilities = excluded.capabilities,
    capacity_type = excluded.capacity_type,
    instance_type = excluded.instance_type,
    is_approved = excluded.is_approved,
    is_narrowed = excluded.is_narrowed,
    fleet_token_id = excluded.fleet_token_id,
    secret_fingerprint = excluded.secret_fingerprint,
    asg_unverified = excluded.asg_unverified,
    environment = excluded.environment,
    registered_at = clock_timestamp(),
    last_seen_at = clock_timestamp()

-- name: set_environment
-- Only for the session that reported the environment. Returns a row if the environment changed.
UPDATE comfyui_workers SET environment = :environment
WHERE worker_id = :worker_id AND session_id = :session_id AND environment IS DISTINCT FROM :environment
RETURNING worker_id

-- name: cannot_run
-- The assigned active workflows for which a worker lacks something.
SELECT k.slug AS workflow, l.lacks
FROM comfyui_workers w JOIN environment_lacks l ON l.digest = w.environment JOIN workflows k ON k.id = l.workflow_id
WHERE w.worker_id = :worker_id AND k.is_active AND (
    EXISTS (SELECT FROM worker_workflows ww WHERE ww.worker_id = w.worker_id AND ww.workflow_id = k.id)
    OR NOT w.is_narrowed AND EXISTS (
        SELECT FROM workflow_fleets wf WHERE wf.fleet_id = w.fleet_id AND wf.workflow_id = k.id))
ORDER BY k.slug LIMIT :limit

-- name: unassign_workflows
DELETE FROM worker_workflows WHERE worker_id = :worker_id AND workflow_id <> ALL (:workflow_ids::bigint[])

-- name: assign_workflows
INSERT INTO worker_workflows (worker_id, workflow_id)
SELECT :worker_id, workflow_id FROM unnest(:workflow_ids::bigint[]) AS workflow_id
ON CONFLICT DO NOTHING

-- name: forget_drain
-- Only for in-process workers: their ids are never used again, because every process has its own.
DELETE FROM worker_drains WHERE worker_id = :worker_id AND starts_with(worker_id, :own_prefix)

-- name: remove_session_of_worker
DELETE FROM comfyui_workers WHERE worker_id = :worker_id AND session_id = :session_id

-- name: find_stale_workers
-- Workers that were silent too long and hold no lease. A worker keeps a lease until it expires, with or without
-- heartbeats. The reaper then takes the lease back, and after that the worker is found here.
SELECT w.worker_id, w.session_id FROM comfyui_workers w
WHERE w.revoked_at IS NULL AND w.last_seen_at < clock_timestamp() - make_interval(secs => :stale_seconds)
  AND NOT EXISTS (SELECT FROM ai_job_dispatches d WHERE d.worker_id = w.worker_id AND d.status = 'leased')
ORDER BY w.worker_id LIMIT :limit

-- name: find_unverified_workers
SELECT worker_id, session_id FROM comfyui_workers WHERE asg_unverified AND revoked_at IS NULL ORDER BY worker_id LIMIT :limit

-- name: settle_unverified
UPDATE comfyui_workers SET asg_unverified = false
WHERE worker_id = :worker_id AND session_id = :session_id AND asg_unverified

-- name: remove_stale_worker
-- Checks all conditions again, for the same registration: the worker may just have returned or got a job. Run after
-- lock_drains, so that a lease in progress is waited for and seen.
-- The token hashes are kept, so that the response to the worker's next request says to register again.
WITH removed AS (
    DELETE FROM comfyui_workers w
    WHERE w.worker_id = :worker_id AND w.session_id = :session_id AND w.revoked_at IS NULL
      AND w.last_seen_at < clock_timestamp() - make_interval(secs => :stale_seconds)
      AND NOT EXISTS (SELECT FROM ai_job_dispatches d WHERE d.worker_id = :worker_id AND d.status = 'leased')
    RETURNING w.session_id, w.token_hash, w.next_token_hash
)
INSERT INTO removed_worker_tokens (token_hash, session_id)
SELECT tokens.hash, removed.session_id
FROM removed CROSS JOIN LATERAL unnest(ARRAY[removed.token_hash, removed.next_token_hash]) AS tokens (hash)
WHERE tokens.hash IS NOT NULL

-- name: forget_removed_tokens
DELETE FROM removed_worker_tokens
WHERE removed_at < (SELECT clock_timestamp() - make_interval(days => :days::integer))

-- name: find_removed_tokens
-- Tokens whose worker has not registered since. A worker that has is known by its new token only.
SELECT t.token_hash FROM removed_worker_tokens t JOIN worker_sessions s ON s.id = t.session_id
WHERE t.token_hash = ANY (:hashes::bytea[])
  AND NOT EXISTS (SELECT FROM worker_sessions later WHERE later.worker_id = s.worker_id AND later.id > s.id)

-- name: find_left_behind
-- Leases whose worker is gone: its last session has ended, or started after the lease. A process crashed before it
-- requeued them, or a poll was open at that moment. Reads rows of the queue, in the same database: as many as there are
-- jobs in progress. Leases of workers that never registered here are not included.
SELECT d.dispatch_id, d.lease_token, d.worker_id, last.id AS session_id,
    coalesce(last.end_reason LIKE 'deregistered%', false) AS said_good_bye
FROM ai_job_dispatches d CROSS JOIN LATERAL (
    SELECT s.id, s.started_at, s.ended_at, s.end_reason FROM worker_sessions s
    WHERE s.worker_id = d.worker_id ORDER BY s.id DESC LIMIT 1
) last
WHERE d.status <> 'queued' AND d.lease_token IS NOT NULL
  AND (last.ended_at IS NOT NULL OR d.last_leased_at < last.started_at)
ORDER BY d.worker_id, d.dispatch_id LIMIT :limit

-- name: approve_worker
-- A revoked worker gets a hash that no token has, so its id may register again. It counts as seen now, so the sweeper
-- does not remove it before. Its session has ended, so it does not count as alive.
UPDATE comfyui_workers SET is_approved = true, revoked_at = NULL,
    token_hash = coalesce(token_hash, :unusable_hash),
    last_seen_at = CASE WHEN revoked_at IS NULL THEN last_seen_at ELSE clock_timestamp() END
WHERE worker_id = :worker_id

-- name: revoke_worker
UPDATE comfyui_workers SET is_approved = false, revoked_at = coalesce(revoked_at, clock_timestamp()),
    token_hash = NULL, rotation_id = NULL, next_token_hash = NULL, rotated_at = NULL
WHERE worker_id = :worker_id

-- name: lock_drains
-- Waits for leases in progress; later leases wait for the end of this transaction (see drained_workers). Used to drain
-- a worker and to remove a stale one.
SELECT pg_advisory_xact_lock(hashtextextended('callsheet drains', 0))

-- name: drain_worker
-- A repeated drain changes neither the time nor the author of the first one. Only a drain of the autoscaler becomes
-- that of the person who repeats it: the autoscaler then neither undoes it nor ends the worker.
INSERT INTO worker_drains AS known (worker_id, drained_by, reason) VALUES (:worker_id, :drained_by, :reason)
ON CONFLICT (worker_id) DO UPDATE SET
    reason = coalesce(excluded.reason, known.reason),
    drained_by = CASE WHEN known.drained_by = 'autoscaler' AND known.ending_since IS NULL
        THEN excluded.drained_by ELSE known.drained_by END

-- name: undrain_worker
-- Not while the autoscaler is ending the worker. If its fleet is no longer scaled, the autoscaler ends nothing.
DELETE FROM worker_drains r WHERE r.worker_id = :worker_id AND (r.ending_since IS NULL OR NOT EXISTS (
    SELECT FROM comfyui_workers c JOIN fleet_scaling s ON s.fleet_id = c.fleet_id WHERE c.worker_id = :worker_id))
RETURNING r.worker_id

-- name: is_ending
SELECT EXISTS (SELECT FROM worker_drains WHERE worker_id = :worker_id AND ending_since IS NOT NULL)

-- name: retire_workers
-- Drains of the autoscaler. Run after lock_drains, so that a lease in progress is waited for and seen.
INSERT INTO worker_drains (worker_id, drained_by, reason)
SELECT asked.id, :drained_by, :reason FROM unnest(:worker_ids::text[]) AS asked (id)
WHERE :also_busy::boolean OR NOT EXISTS (
    SELECT FROM ai_job_dispatches d WHERE d.worker_id = asked.id AND d.status = 'leased')
ORDER BY asked.id
ON CONFLICT (worker_id) DO NOTHING
RETURNING worker_id

-- name: reinstate_workers
DELETE FROM worker_drains
WHERE worker_id = ANY (:worker_ids::text[]) AND drained_by = :drained_by AND ending_since IS NULL
RETURNING worker_id

-- name: begin_to_end
-- No lease follows a committed drain, so a worker without a lease here will not get one. If the drain is being deleted,
-- this statement waits and does not find the row: the undrain came first.
UPDATE worker_drains r SET ending_since = clock_timestamp()
WHERE r.worker_id = ANY (:worker_ids::text[]) AND r.drained_by = :drained_by AND r.ending_since IS NULL
  AND NOT EXISTS (SELECT FROM ai_job_dispatches d WHERE d.worker_id = r.worker_id AND d.status = 'leased')
RETURNING r.worker_id

-- name: forget_ended
-- Only ids without a worker: another worker may use such an id later.
DELETE FROM worker_drains r
WHERE r.worker_id = ANY (:worker_ids::text[]) AND r.drained_by = :drained_by
  AND NOT EXISTS (SELECT FROM comfyui_workers c WHERE c.worker_id = r.worker_id AND c.revoked_at IS NULL)

-- name: sessions_of_workers
SELECT worker_id, session_id FROM comfyui_workers WHERE worker_id = ANY (:worker_ids::text[])

-- name: last_session_of_worker
SELECT max(id) FROM worker_sessions WHERE worker_id = :worker_id

-- name: rotate_token
UPDATE comfyui_workers
SET rotation_id = :rotation_id, next_token_hash = :next_token_hash, rotated_at = clock_timestamp()
WHERE worker_id = :worker_id

-- name: list_workers
-- Registered workers, and drained workers that are not registered, with the data of their last session. There are some
-- thousand at most; for each of them the queue is read by its index of held rows.
SELECT w.*, r.worker_id IS NOT NULL AS is_draining, r.since AS drained_since, r.drained_by, r.reason AS drain_reason,
    ARRAY (SELECT k.slug FROM (
            SELECT wf.workflow_id FROM workflow_fleets wf JOIN gpu_fleets f ON f.id = wf.fleet_id AND f.is_active
            WHERE wf.fleet_id = w.fleet_id AND (NOT w.is_narrowed OR EXISTS (
                SELECT FROM worker_workflows ww WHERE ww.worker_id = w.worker_id AND ww.workflow_id = wf.workflow_id))
            UNION ALL
            SELECT ww.workflow_id FROM worker_workflows ww WHERE ww.worker_id = w.worker_id AND w.fleet_id IS NULL
        ) given JOIN workflows k ON k.id = given.workflow_id AND k.is_active
        WHERE NOT EXISTS (
            SELECT FROM environment_lacks l WHERE l.digest = w.environment AND l.workflow_id = given.workflow_id)
        ORDER BY k.slug) AS workflows,
    (SELECT count(*) FROM ai_job_dispatches d WHERE d.worker_id = w.worker_id AND d.status = 'leased') AS current_load
FROM (
    SELECT c.worker_id, true AS is_registered, c.display_name, c.registration_source, c.fleet_id, f.slug AS fleet_slug,
        c.stage, c.providers, c.max_concurrency, c.capabilities, c.capacity_type, c.instance_type, c.is_approved,
        c.revoked_at, c.session_id, c.registered_at, c.last_seen_at, c.rotation_id IS NOT NULL AS rotation_pending,
        c.is_narrowed, c.fleet_token_id, c.asg_unverified, c.environment,
        c.revoked_at IS NULL AND c.last_seen_at > clock_timestamp() - make_interval(secs => :alive_seconds) AS is_live
    FROM comfyui_workers c LEFT JOIN gpu_fleets f ON f.id = c.fleet_id
    UNION ALL
    SELECT a.worker_id, false, '', CASE WHEN s.fleet_slug IS NULL THEN 'workflows' ELSE 'fleet' END, NULL, s.fleet_slug,
        coalesce(s.stage, :default_stage), '{}', 0, '{}', s.capacity_type, s.instance_type, true, NULL, s.id,
        coalesce(s.started_at, a.since), coalesce(s.ended_at, a.since), false, false, NULL, false, NULL, false
    FROM worker_drains a LEFT JOIN LATERAL (
        SELECT * FROM worker_sessions s WHERE s.worker_id = a.worker_id ORDER BY s.id DESC LIMIT 1
    ) s ON true
    WHERE NOT EXISTS (SELECT FROM comfyui_workers c WHERE c.worker_id = a.worker_id)
) w LEFT JOIN worker_drains r ON r.worker_id = w.worker_id
WHERE w.worker_id > coalesce(:after, '') AND (:worker_id::text IS NULL OR w.worker_id = :worker_id)
  AND (:fleet::text IS NULL OR w.fleet_slug = :fleet) AND (:stage::text IS NULL OR w.stage = :stage)
  AND (:approved::boolean IS NULL OR w.is_approved = :approved) AND (:live::boolean IS NULL OR w.is_live = :live)
ORDER BY w.worker_id LIMIT :limit

-- name: leases_of_worker
SELECT d.dispatch_id, d.tenant_id, d.tenant_job_id AS job_id, k.slug AS workflow, d.attempts, d.last_leased_at AS leased_at,
    d.run_started_at, d.heartbeat_at, d.lease_expires_at
FROM ai_job_dispatches d JOIN workflows k ON k.id = d.workflow_id
WHERE d.worker_id = :worker_id AND d.status = 'leased' ORDER BY d.dispatch_id

-- name: sessions_of_worker
-- Compares and orders by pairs, so that only the index on both columns fits.
SELECT id, worker_id, fleet_slug, stage, capacity_type, instance_type, started_at, ended_at, end_reason, busy_seconds,
    jobs_completed, jobs_failed, jobs_requeued
FROM worker_sessions
WHERE (worker_id, id) < (:worker_id, coalesce(:before, 9223372036854775807)) AND worker_id >= :worker_id
ORDER BY worker_id DESC, id DESC LIMIT :limit

-- name: list_sessions
SELECT id, worker_id, fleet_slug, stage, capacity_type, instance_type, started_at, ended_at, end_reason, busy_seconds,
    jobs_completed, jobs_failed, jobs_requeued
FROM worker_sessions WHERE id < coalesce(:before, 9223372036854775807) ORDER BY id DESC LIMIT :limit

-- name: events_of_worker
SELECT id, at, worker_id, session_id, event, actor, dispatch_id, details FROM worker_audit_logs
WHERE (worker_id, id) < (:worker_id, coalesce(:before, 9223372036854775807)) AND worker_id >= :worker_id
ORDER BY worker_id DESC, id DESC LIMIT :limit

-- name: list_events
SELECT id, at, worker_id, session_id, event, actor, dispatch_id, details FROM worker_audit_logs
WHERE id < coalesce(:before, 9223372036854775807) ORDER BY id DESC LIMIT :limit

-- name: create_fleet
INSERT INTO gpu_fleets (slug, stage, name, desired_workers) VALUES (:slug, :stage, :name, :desired_workers)
ON CONFLICT (slug, stage) DO NOTHING RETURNING id

-- name: list_fleets
SELECT f.id, f.slug, f.stage, f.name, f.is_active, f.desired_workers, f.created_at,
    ARRAY (SELECT k.slug FROM workflow_fleets wf JOIN workflows k ON k.id = wf.workflow_id
           WHERE wf.fleet_id = f.id ORDER BY k.slug) AS workflows,
    crew.workers, crew.live_workers, scaled.scaling
FROM gpu_fleets f LEFT JOIN LATERAL (
    SELECT jsonb_build_object('driver', s.driver, 'minimum', s.minimum, 'maximum', s.maximum, 'wanted', s.wanted,
        'actual', s.serving, 'coming', s.coming, 'draining', s.draining, 'existing', s.existing,
        'queued_jobs', s.queued_jobs, 'queued_seconds', s.queued_seconds, 'cause', s.cause, 'reason', s.reason,
        'looked_at', s.looked_at, 'driver_error', s.driver_error, 'driver_failing_since', s.driver_failing_since,
        'decisions', coalesce((
            SELECT jsonb_agg(to_jsonb(d) ORDER BY d.id DESC) FROM (
                SELECT * FROM scaling_decisions d WHERE d.fleet_id = f.id ORDER BY d.fleet_id DESC, d.id DESC LIMIT 3
            ) d), '[]')) AS scaling
    FROM fleet_scaling s WHERE s.fleet_id = f.id
) scaled ON true CROSS JOIN LATERAL (
    SELECT count(*) AS workers, count(*) FILTER (WHERE w.is_approved AND w.revoked_at IS NULL
        AND NOT EXISTS (SELECT FROM worker_drains r WHERE r.worker_id = w.worker_id)
        AND w.last_seen_at > clock_timestamp() - make_interval(secs => :alive_seconds)) AS live_workers
    FROM comfyui_workers w WHERE w.fleet_id = f.id
) crew
WHERE f.id < coalesce(:before, 9223372036854775807) AND (:id::bigint IS NULL OR f.id = :id)
  AND (:slug::text IS NULL OR f.slug = :slug) AND (:stage::text IS NULL OR f.stage = :stage)
ORDER BY f.id DESC LIMIT :limit

-- name: lock_fleet
SELECT id FROM gpu_fleets WHERE id = :id FOR NO KEY UPDATE

-- name: update_fleet
UPDATE gpu_fleets SET name = coalesce(:name, name), is_active = coalesce(:is_active, is_active),
    desired_workers = CASE WHEN :sets_desired_workers THEN :desired_workers ELSE desired_workers END
WHERE id = :id

-- name: unassign_fleet_workflows
DELETE FROM workflow_fleets WHERE fleet_id = :fleet_id AND workflow_id <> ALL (:workflow_ids::bigint[])

-- name: assign_fleet_workflows
INSERT INTO workflow_fleets (fleet_id, workflow_id)
SELECT :fleet_id, workflow_id FROM unnest(:workflow_ids::bigint[]) AS workflow_id
ON CONFLICT DO NOTHING

-- name: tell_fleet_reassigned
-- Notifies waiting polls at the commit; otherwise the change would take effect with the next poll.
SELECT pg_notify('assignments', worker_id) FROM comfyui_workers WHERE fleet_id = :fleet_id

-- name: tell_worker_reassigned
SELECT pg_notify('assignments', :worker_id::text)

-- name: detach_revoked_workers
-- Revoked workers are kept only so that their ids stay blocked.
UPDATE comfyui_workers SET fleet_id = NULL, registration_source = 'workflows', is_narrowed = false
WHERE fleet_id = :fleet_id AND revoked_at IS NOT NULL

-- name: delete_fleet
DELETE FROM gpu_fleets WHERE id = :id RETURNING slug, stage

-- name: capacity
-- Workers that could take jobs of each route now: those of active fleets with the workflow, and those assigned to it.
-- A worker that sends no heartbeats while it renders counts as long as it has a valid lease, with the slots it uses.
-- A prefetched job takes no slot, neither of its own worker nor of another one.
WITH asked AS MATERIALIZED (
    SELECT * FROM unnest(:workflow_ids::bigint[], :stages::text[], :providers::text[]) WITH ORDINALITY
        AS a (workflow_id, stage, provider, place)
)
SELECT asked.place, crew.live_workers, crew.slots, crew.busy, crew.draining, scaling.up AS scaling_up, crew.unable,
    scaling.starts_in_seconds
FROM asked CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE w.is_able) AS live_workers,
        coalesce(sum(w.max_concurrency) FILTER (WHERE w.is_able), 0)::bigint AS slots,
        coalesce(sum(least(w.held, w.max_concurrency)) FILTER (WHERE w.is_able), 0)::bigint AS busy,
        count(*) FILTER (WHERE w.is_draining) AS draining,
        count(*) FILTER (WHERE NOT w.is_draining AND NOT w.is_able) AS unable
    FROM (
        SELECT drain.is_draining, leased.held, NOT drain.is_draining AND NOT EXISTS (
                SELECT FROM environment_lacks l
                WHERE l.digest = c.environment AND l.workflow_id = asked.workflow_id) AS is_able,
            CASE WHEN c.was_seen THEN c.max_concurrency ELSE leased.held END AS max_concurrency
        FROM (
            SELECT m.*, m.last_seen_at > clock_timestamp() - make_interval(secs => :alive_seconds) AS was_seen FROM (
                SELECT m.* FROM workflow_fleets wf
                JOIN gpu_fleets f ON f.id = wf.fleet_id AND f.is_active AND f.stage = asked.stage
                JOIN comfyui_workers m ON m.fleet_id = f.id
                WHERE wf.workflow_id = asked.workflow_id AND (NOT m.is_narrowed OR EXISTS (
                    SELECT FROM worker_workflows ww
                    WHERE ww.worker_id = m.worker_id AND ww.workflow_id = asked.workflow_id))
                UNION ALL
                SELECT m.* FROM worker_workflows ww
                JOIN comfyui_workers m ON m.worker_id = ww.worker_id AND m.fleet_id IS NULL AND m.stage = asked.stage
                WHERE ww.workflow_id = asked.workflow_id
            ) m
        ) c CROSS JOIN LATERAL (
            SELECT count(*) AS held, coalesce(bool_or(d.lease_expires_at > clock_timestamp()), false) AS is_valid
            FROM ai_job_dispatches d WHERE d.worker_id = c.worker_id AND d.status = 'leased'
        ) leased CROSS JOIN LATERAL (
            SELECT EXISTS (SELECT FROM worker_drains r WHERE r.worker_id = c.worker_id) AS is_draining
        ) drain
        WHERE c.is_approved AND c.revoked_at IS NULL AND asked.provider = ANY (c.providers)
          AND (c.was_seen OR leased.is_valid)
    ) w
) crew CROSS JOIN LATERAL (
    -- No worker is starting if the driver fails, or if scaling is paused because this database may be a copy.
    SELECT count(*) > 0 AS up, extract(epoch FROM min(f.next_worker_at) - clock_timestamp())::float8 AS starts_in_seconds
    FROM workflow_fleets wf JOIN gpu_fleets f ON f.id = wf.fleet_id
    WHERE wf.workflow_id = asked.workflow_id AND f.is_active AND f.stage = asked.stage
      AND NOT EXISTS (SELECT FROM fleet_scaling s
                      WHERE s.fleet_id = f.id AND (s.driver_error IS NOT NULL OR s.cause = 'paused'))
      AND f.desired_workers > (
        SELECT count(*) FROM comfyui_workers c
        WHERE c.fleet_id = f.id AND c.is_approved AND c.revoked_at IS NULL
          AND NOT EXISTS (SELECT FROM worker_drains r WHERE r.worker_id = c.worker_id)
          AND (c.last_seen_at > clock_timestamp() - make_interval(secs => :alive_seconds)
               OR EXISTS (SELECT FROM ai_job_dispatches d WHERE d.worker_id = c.worker_id AND d.status = 'leased'
                          AND d.lease_expires_at > clock_timestamp())))
) scaling

-- name: lacks_of_routes
-- What the live workers of a route lack, and how many of them lack it. Used if no worker can run the route.
WITH asked AS MATERIALIZED (
    SELECT * FROM unnest(:workflow_ids::bigint[], :stages::text[], :providers::text[]) WITH ORDINALITY
        AS a (workflow_id, stage, provider, place)
)
SELECT asked.place, lack.value ->> 'kind' AS kind, lack.value ->> 'name' AS name, count(*) AS workers
FROM asked JOIN environment_lacks l ON l.workflow_id = asked.workflow_id
JOIN comfyui_workers c ON c.environment = l.digest AND c.stage = asked.stage
CROSS JOIN LATERAL jsonb_array_elements(l.lacks) AS lack (value)
WHERE c.is_approved AND c.revoked_at IS NULL AND asked.provider = ANY (c.providers)
  AND c.last_seen_at > clock_timestamp() - make_interval(secs => :alive_seconds)
  AND NOT EXISTS (SELECT FROM worker_drains r WHERE r.worker_id = c.worker_id)
  AND (EXISTS (SELECT FROM worker_workflows ww WHERE ww.worker_id = c.worker_id AND ww.workflow_id = asked.workflow_id)
       OR NOT c.is_narrowed AND EXISTS (
           SELECT FROM workflow_fleets wf JOIN gpu_fleets f ON f.id = wf.fleet_id AND f.is_active
           WHERE wf.fleet_id = c.fleet_id AND wf.workflow_id = asked.workflow_id))
GROUP BY asked.place, lack.value
ORDER BY asked.place, workers DESC, lack.value ->> 'kind' DESC, lack.value ->> 'name'

-- name: lacks_of_absent_workers
-- What the last workers of scaled fleets lacked. Used if no worker of the route is live: no worker is started for its jobs.
WITH asked AS MATERIALIZED (
    SELECT * FROM unnest(:workflow_ids::bigint[], :stages::text[], :providers::text[]) WITH ORDINALITY
        AS a (workflow_id, stage, provider, place)
)
SELECT asked.place, l.lacks
FROM asked JOIN environment_lacks l ON l.workflow_id = asked.workflow_id
JOIN fleet_environments e ON e.digest = l.digest
JOIN fleet_scaling s ON s.fleet_id = e.fleet_id AND asked.provider = ANY (s.providers)
JOIN gpu_fleets f ON f.id = s.fleet_id AND f.is_active AND f.stage = asked.stage
JOIN workflow_fleets wf ON wf.fleet_id = f.id AND wf.workflow_id = asked.workflow_id
ORDER BY asked.place, e.digest

-- name: delete_old_sessions
DELETE FROM worker_sessions WHERE id = ANY (ARRAY (
    SELECT id FROM worker_sessions
    WHERE ended_at < (SELECT clock_timestamp() - make_interval(days => :days::integer))
    ORDER BY ended_at LIMIT :limit
))

-- name: delete_old_events
-- Oldest first, by the key, which follows the order of time.
DELETE FROM worker_audit_logs WHERE id = ANY (ARRAY (
    SELECT id FROM (SELECT id, at FROM worker_audit_logs ORDER BY id LIMIT :limit) oldest
    WHERE at < clock_timestamp() - make_interval(days => :days::integer)
))
