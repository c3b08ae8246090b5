-- database: central

-- part: quota_columns
tenant_id, tenant_storage_bytes, tenant_storage_files, user_storage_bytes, user_storage_files, user_database_bytes,
payload_bytes, pipelines_per_user, versions_per_pipeline, keys_per_user

-- name: quotas_of_tenant
SELECT {quota_columns} FROM tenant_quotas
WHERE tenant_id = :tenant_id

-- name: quotas_of_tenants
SELECT {quota_columns} FROM tenant_quotas
WHERE tenant_id = ANY (:tenant_ids::uuid[])

-- name: lock_tenant
-- The lock makes the second of two concurrent changes see the first.
SELECT 1 FROM tenants WHERE id = :tenant_id FOR NO KEY UPDATE

-- name: set_quotas
INSERT INTO tenant_quotas (
    tenant_id, tenant_storage_bytes, tenant_storage_files, user_storage_bytes, user_storage_files, user_database_bytes,
    payload_bytes, pipelines_per_user, versions_per_pipeline, keys_per_user
)
VALUES (
    :tenant_id, :tenant_storage_bytes, :tenant_storage_files, :user_storage_bytes, :user_storage_files,
    :user_database_bytes, :payload_bytes, :pipelines_per_user, :versions_per_pipeline, :keys_per_user
)
ON CONFLICT (tenant_id) DO UPDATE SET tenant_storage_bytes = excluded.tenant_storage_bytes,
    tenant_storage_files = excluded.tenant_storage_files, user_storage_bytes = excluded.user_storage_bytes,
    user_storage_files = excluded.user_storage_files, user_database_bytes = excluded.user_database_bytes,
    payload_bytes = excluded.payload_bytes, pipelines_per_user = excluded.pipelines_per_user,
    versions_per_pipeline = excluded.versions_per_pipeline, keys_per_user = excluded.keys_per_user

-- name: count_keys
SELECT count(*) FROM api_keys
WHERE user_id = :user_id AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > clock_timestamp())
