-- database: pool

-- name: payload_of_job
SELECT user_id, effect_id, actor, charge_cycle, lease_seq, payload FROM ai_jobs
WHERE tenant_id = :tenant_id AND id = :job_id

-- name: get_actor_and_action
-- The actor and the action of a task, without the rest of its payload.
SELECT actor, payload ->> 'action_type' AS action FROM ai_jobs WHERE tenant_id = :tenant_id AND id = :job_id
