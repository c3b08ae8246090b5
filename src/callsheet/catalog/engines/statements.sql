-- database: central
-- owns: environment_lacks, worker_environments

-- name: lock_environments
-- A new environment is compared with all workflows, and a changed workflow with all environments. The lock makes these
-- comparisons run one after the other.
SELECT pg_advisory_xact_lock(hashtextextended('callsheet environments', 0))

-- name: use_environment
-- Locks the environment, so that it is not deleted before a worker refers to it.
UPDATE worker_environments SET last_used_at = clock_timestamp() WHERE digest = :digest RETURNING digest

-- name: create_environment
-- Two workers of one image may register at the same time: the second one finds the row of the first.
INSERT INTO worker_environments (digest, inventory, node_forms) VALUES (:digest, :inventory::jsonb, :node_forms)
ON CONFLICT (digest) DO UPDATE SET last_used_at = clock_timestamp()

-- name: required_of_workflows
SELECT id, required FROM workflows WHERE required IS NOT NULL ORDER BY id

-- name: environments
SELECT digest, inventory FROM worker_environments ORDER BY digest

-- name: live_environments
-- What the online workers of a provider have, and what the last workers of scaled fleets without a worker had, because
-- their next worker starts from the same image. Workers that do not report what they have are a row without inventory;
-- workers of actors are left out, because they have no engine.
WITH live_worker AS MATERIALIZED (
    SELECT w.environment, w.fleet_id
    FROM comfyui_workers w
    WHERE w.is_approved AND w.revoked_at IS NULL AND :provider = ANY (w.providers)
      AND w.last_seen_at > clock_timestamp() - make_interval(secs => :alive_seconds)
      AND (w.environment IS NOT NULL OR NOT EXISTS (
        SELECT FROM worker_workflows ww JOIN workflows k ON k.id = ww.workflow_id
        WHERE ww.worker_id = w.worker_id AND starts_with(k.slug, 'actor:'))
        AND NOT EXISTS (
        SELECT FROM workflow_fleets wf JOIN workflows k ON k.id = wf.workflow_id
        WHERE wf.fleet_id = w.fleet_id AND starts_with(k.slug, 'actor:')))
), environment AS (
    SELECT l.environment AS digest, count(*) AS workers FROM live_worker l GROUP BY l.environment
    UNION ALL
    SELECT DISTINCT f.digest, 0::bigint
    FROM fleet_environments f
    WHERE NOT EXISTS (SELECT FROM live_worker l WHERE l.fleet_id = f.fleet_id OR l.environment = f.digest)
)
SELECT environment.workers, e.inventory, e.node_forms
FROM environment LEFT JOIN worker_environments e ON e.digest = environment.digest
ORDER BY environment.workers DESC, environment.digest LIMIT :limit

-- name: forget_lacks
DELETE FROM environment_lacks WHERE workflow_id = :workflow_id RETURNING digest

-- name: write_lacks
INSERT INTO environment_lacks (digest, workflow_id, lacks)
SELECT digest, workflow_id, lacks::jsonb
FROM unnest(:digests::bytea[], :workflow_ids::bigint[], :lacks::text[]) AS w (digest, workflow_id, lacks)
ON CONFLICT (digest, workflow_id) DO UPDATE SET lacks = excluded.lacks

-- name: notify_workers_of_environments
-- Ends the waiting polls of these workers, as a change of their workflows does, so that they poll again.
SELECT pg_notify('assignments', worker_id) FROM comfyui_workers WHERE environment = ANY (:digests::bytea[])

-- name: forget_unused_environments
-- The time is checked again, because a worker may have started to use an environment at this moment.
DELETE FROM worker_environments e
WHERE e.last_used_at < clock_timestamp() - make_interval(secs => :seconds)
  AND NOT EXISTS (SELECT FROM comfyui_workers w WHERE w.environment = e.digest)
  AND NOT EXISTS (SELECT FROM fleet_environments f WHERE f.digest = e.digest)

-- name: models_of_workflows
SELECT id, models FROM workflows WHERE models <> '{}'
