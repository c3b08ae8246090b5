-- database: central

-- name: weight_of_tenant
SELECT t.slug AS tenant, t.weight, coalesce(t.max_running, :max_running::integer) AS max_running,
    coalesce(t.max_running_per_user, :max_running_per_user::integer) AS max_running_per_user,
    (SELECT count(*) FROM ai_job_dispatches d WHERE d.tenant_id = t.id AND d.status <> 'queued') AS running
FROM tenants t
WHERE t.id = :tenant_id

-- name: lock_weight
-- The lock makes the second of two concurrent changes see the first.
SELECT weight, max_running, max_running_per_user FROM tenants WHERE id = :tenant_id FOR NO KEY UPDATE

-- name: set_weight
SELECT tenant_set_weight(:tenant_id, :weight, :max_running, :max_running_per_user)
