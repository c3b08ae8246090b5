"""Quotas of a tenant and its users, and their current use."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from callsheet.wire.base import WHOLE, ResponseModel, UserRequest

Limit = Annotated[int, Field(ge=0, le=2**53), WHOLE]


class QuotaLimits(ResponseModel):
    """The limits in force."""

    tenant_storage_bytes: int = Field(description="Largest number of bytes of all files of the tenant.")
    tenant_storage_files: int = Field(description="Largest number of files of the tenant.")
    user_storage_bytes: int = Field(description="Largest number of bytes of all files of one user.")
    user_storage_files: int = Field(description="Largest number of files of one user.")
    user_database_bytes: int = Field(
        description="Largest number of bytes of JSON of the pipelines, runs and jobs of one user in the database."
    )
    payload_bytes: int = Field(description="Largest payload of a task or of a step of a pipeline, in bytes of JSON.")
    pipelines_per_user: int = Field(description="Largest number of pipelines of one user.")
    versions_per_pipeline: int = Field(description="Largest number of versions of one pipeline.")
    keys_per_user: int = Field(
        description="Largest number of API keys of one user that are neither revoked nor expired."
    )


class ChangeQuotas(UserRequest):
    """Limits of one tenant. Fields that you leave out do not change. Null restores the installation's default."""

    tenant_storage_bytes: Limit | None = None
    tenant_storage_files: Limit | None = None
    user_storage_bytes: Limit | None = None
    user_storage_files: Limit | None = None
    user_database_bytes: Limit | None = None
    payload_bytes: Limit | None = None
    pipelines_per_user: Limit | None = None
    versions_per_pipeline: Limit | None = None
    keys_per_user: Limit | None = None


class StorageUse(ResponseModel):
    """Used storage. Pending uploads count with their declared size."""

    bytes: int
    files: int
    reserved_bytes: int = Field(
        description="Bytes that count for new uploads, in addition to `bytes`: the URL of an upload stays valid for a "
        "short time after the upload was confirmed, and S3 stores what is sent to the URL. Always 0 for local storage."
    )
    reserved_files: int = Field(description="Number of such uploads.")
    bytes_limit: int
    files_limit: int


class DatabaseUse(ResponseModel):
    """Bytes of JSON in the database: steps of pipelines, inputs of runs, and payloads of jobs and tasks."""

    bytes: int
    bytes_limit: int


class Storage(ResponseModel):
    user: StorageUse = Field(description="Your own files.")
    tenant: StorageUse = Field(description="The files of all users of your tenant.")
    database: DatabaseUse = Field(description="Your own pipelines, runs and jobs.")


class TenantQuotas(ResponseModel):
    tenant: str
    limits: QuotaLimits
    changed: dict[str, int] = Field(
        description="Limits that are set for this tenant and differ from the installation's."
    )
    database_bytes: int | None = Field(
        description="Bytes of JSON that the pipelines, runs and jobs of all users of the tenant take in the database. "
        "Null while its pool cannot be reached."
    )
    storage: StorageUse | None = Field(
        description="Storage that the tenant's files use. Null while its pool cannot be reached."
    )
