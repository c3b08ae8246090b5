-- Limits that an operator gave a tenant. Null, or no row: the settings of the installation.
CREATE TABLE tenant_quotas (
    tenant_id              uuid PRIMARY KEY REFERENCES tenants (id),
    tenant_storage_bytes   bigint CHECK (tenant_storage_bytes >= 0),
    tenant_storage_files   bigint CHECK (tenant_storage_files >= 0),
    user_storage_bytes     bigint CHECK (user_storage_bytes >= 0),
    user_storage_files     bigint CHECK (user_storage_files >= 0),
    payload_bytes          bigint CHECK (payload_bytes >= 0),
    source_data_bytes      bigint CHECK (source_data_bytes >= 0),
    pipelines_per_user     bigint CHECK (pipelines_per_user >= 0),
    versions_per_pipeline  bigint CHECK (versions_per_pipeline >= 0),
    keys_per_user          bigint CHECK (keys_per_user >= 0)
);
