"""Quotas: what a tenant and its users may keep, and what they keep now."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from callsheet.wire.base import WHOLE, Answer, UserRequest

Limit = Annotated[int, Field(ge=0, le=2**53), WHOLE]


class QuotaLimits(Answer):
    """The limits in force."""

    tenant_storage_bytes: int = Field(description="Most bytes that the files of the tenant may take together.")
    tenant_storage_files: int = Field(description="Most files that the tenant may have.")
    user_storage_bytes: int = Field(description="Most bytes that the files of one user may take together.")
    user_storage_files: int = Field(description="Most files that one user may have.")
    payload_bytes: int = Field(description="Largest payload of a task or of a step of a pipeline, in bytes of JSON.")
    source_data_bytes: int = Field(description="Largest `source_data` in the payload of a task, in bytes of JSON.")
    pipelines_per_user: int = Field(description="Most pipelines that one user may have.")
    versions_per_pipeline: int = Field(description="Most versions that one pipeline may have.")
    keys_per_user: int = Field(description="Most API keys of one user that are neither revoked nor expired.")


class ChangeQuotas(UserRequest):
    """Limits of one tenant. What is left out stays as it is; null takes the installation's default again."""

    tenant_storage_bytes: Limit | None = None
    tenant_storage_files: Limit | None = None
    user_storage_bytes: Limit | None = None
    user_storage_files: Limit | None = None
    payload_bytes: Limit | None = None
    source_data_bytes: Limit | None = None
    pipelines_per_user: Limit | None = None
    versions_per_pipeline: Limit | None = None
    keys_per_user: Limit | None = None


class StorageUse(Answer):
    """Uploads that are waited for count with the size they were declared with."""

    bytes: int
    files: int
    bytes_limit: int
    files_limit: int


class Storage(Answer):
    user: StorageUse = Field(description="Your own files.")
    tenant: StorageUse = Field(description="The files of all users of your tenant.")


class TenantQuotas(Answer):
    tenant: str
    limits: QuotaLimits
    changed: dict[str, int] = Field(description="The limits that are this tenant's own, not the installation's.")
    storage: StorageUse | None = Field(description="What its files take now. Null while its pool cannot be reached.")
