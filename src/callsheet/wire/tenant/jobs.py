"""The models of all jobs of a tenant, for the tenant's server."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, Field, StringConstraints

from callsheet.wire.base import ResponseModel
from callsheet.wire.jobs import Job

# Few enough digits that a datetime and an integer can hold them.
POSITION = r"^[0-9]{1,17}-[0-9a-f]{32}-[0-9]{1,9}$"
PositionText = Annotated[str, StringConstraints(pattern=POSITION)]


class ChangesFilter(BaseModel):
    """Where a list of changed jobs begins."""

    updated_since: AwareDatetime | None = Field(
        None,
        description="Only jobs that changed at this time or later. Default: all jobs whose events are kept.",
    )
    cursor: PositionText | None = Field(
        None, description="`next_cursor` of the response before. `updated_since` is then ignored."
    )


class TenantJob(ResponseModel):
    """A job with its user."""

    user_id: UUID
    external_id: str | None = Field(None, description="What the system of the tenant calls the user.")
    changed_at: datetime = Field(description="Time of the last event of the job.")
    deleted_at: datetime | None = Field(None, description="When the user deleted the job.")
    job: Job


class ChangedJobs(ResponseModel):
    items: list[TenantJob]
    next_cursor: str = Field(
        description="Send it as `cursor` for what comes next: at once if `is_last` is false, later for new changes."
    )
    is_last: bool = Field(description="Whether nothing more has changed yet.")
