"""What one tenant and one user may keep here. An operator may give a tenant limits of its own."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from callsheet.toolbox.sections import Section

Limit = Annotated[int, Field(ge=0, le=2**53)]


class QuotaSettings(Section):
    tenant_storage_bytes: Limit = Field(
        1_099_511_627_776, description="Most bytes that the files of one tenant may take together."
    )
    tenant_storage_files: Limit = Field(2_000_000, description="Most files that one tenant may have.")
    user_storage_bytes: Limit = Field(
        274_877_906_944, description="Most bytes that the files of one user may take together."
    )
    user_storage_files: Limit = Field(500_000, description="Most files that one user may have.")
    payload_bytes: Limit = Field(
        262_144, description="Largest payload of a task or of a step of a pipeline, in bytes of JSON."
    )
    source_data_bytes: Limit = Field(
        65_536, description="Largest `source_data` in the payload of a task, in bytes of JSON."
    )
    pipelines_per_user: Limit = Field(1_000, description="Most pipelines that one user may have.")
    versions_per_pipeline: Limit = Field(1_000, description="Most versions that one pipeline may have.")
    keys_per_user: Limit = Field(100, description="Most API keys of one user that are neither revoked nor expired.")
