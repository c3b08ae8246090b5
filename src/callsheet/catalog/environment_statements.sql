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
INSERT INTO worker_environments (digest, inventory) VALUES (:digest, :inventory::jsonb)
ON CONFLICT (digest) DO UPDATE SET last_used_at = clock_timestamp()

-- name: required_of_workflows
SELECT id, required FROM workflows WHERE required IS NOT NULL ORDER BY id

-- name: environments
SELECT digest, inventory FROM worker_environments ORDER BY digest

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
