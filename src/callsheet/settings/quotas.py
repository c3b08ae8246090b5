"""The quotas of one tenant and of one user. An operator may set other limits for a tenant."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from callsheet.toolbox.sections import Section

Limit = Annotated[int, Field(ge=0, le=2**53)]


class QuotaSettings(Section):
    tenant_storage_bytes: Limit = Field(
        1_099_511_627_776, description="Largest number of bytes of all files of one tenant."
    )
    tenant_storage_files: Limit = Field(2_000_000, description="Largest number of files of one tenant.")
    user_storage_bytes: Limit = Field(274_877_906_944, description="Largest number of bytes of all files of one user.")
    user_storage_files: Limit = Field(500_000, description="Largest number of files of one user.")
    user_database_bytes: Limit = Field(
        10_737_418_240,
        description="Largest number of bytes of JSON of the pipelines, runs and jobs of one user in the database.",
    )
    payload_bytes: Limit = Field(
        262_144, description="Largest payload of a task or of a step of a pipeline, in bytes of JSON."
    )
    source_data_bytes: Limit = Field(
        65_536, description="Largest `source_data` in the payload of a task, in bytes of JSON."
    )
    pipelines_per_user: Limit = Field(1_000, description="Largest number of pipelines of one user.")
    versions_per_pipeline: Limit = Field(1_000, description="Largest number of versions of one pipeline.")
    keys_per_user: Limit = Field(
        100, description="Largest number of API keys of one user that are neither revoked nor expired."
    )
