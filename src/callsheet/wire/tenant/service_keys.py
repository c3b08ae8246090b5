"""The models of service keys, with which the server of a tenant acts for the tenant's users."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from uuid import UUID

from pydantic import AwareDatetime, Field

from callsheet.wire.base import Line, ResponseModel, UserRequest


class ServiceScope(StrEnum):
    """The rights of a service key. `read`: see the data of the tenant's users, and all jobs of the tenant.
    `submit_for_users`: upload, submit, cancel and change for users, and create users. `credit`: give tokens to users
    and take them back."""

    READ = "read"
    SUBMIT_FOR_USERS = "submit_for_users"
    CREDIT = "credit"


class CreateServiceKey(UserRequest):
    name: Line
    scopes: list[ServiceScope] = Field(
        min_length=1,
        max_length=len(ServiceScope),
        description="What the key may do. Only an operator may give the scope `credit`.",
    )
    expires_at: AwareDatetime | None = Field(
        None, description="When the key stops working, at most ten years from now. Default: when it is revoked."
    )


class ServiceKey(ResponseModel):
    id: UUID
    name: str
    prefix: str = Field(description="The first characters of the key.")
    scopes: list[ServiceScope] = Field(description="What the key may do.")
    created_at: datetime
    expires_at: datetime | None = Field(None, description="When the key expires. Null: never.")
    last_used_at: datetime | None = Field(None, description="Time of the last request, to about a minute.")
    revoked_at: datetime | None = None


class CreatedServiceKey(ServiceKey):
    key: str = Field(description="The key itself. It is shown only this once.")
