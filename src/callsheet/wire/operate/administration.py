"""The models of operators' views of the whole installation."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import Field

from callsheet.wire.base import ResponseModel


class TenantFigures(ResponseModel):
    """The figures of a tenant. All values except the number of users are null while the tenant's pool cannot be
    reached.
    """

    tenant_id: UUID
    users: int = Field(description="Number of users, without deleted ones.")
    balance: int | None = Field(None, description="Tokens in the wallets of all users.")
    held: int | None = Field(None, description="Tokens that active jobs hold.")
    active_jobs: int | None = Field(None, description="Number of jobs that have not ended.")
    storage_bytes: int | None = Field(None, description="Bytes of all files.")
    storage_files: int | None = Field(None, description="Number of files.")


class TenantFigureList(ResponseModel):
    items: list[TenantFigures]


class PoolPlace(ResponseModel):
    name: str
    tenants: int = Field(description="Number of tenants in this pool.")
    is_available: bool = Field(description="Whether this control plane can reach the pool.")


class Pools(ResponseModel):
    pools: list[PoolPlace]


class Setting(ResponseModel):
    """A setting of the control plane that responds. The value of a secret is never shown."""

    name: str = Field(description="Name in `callsheet.toml`, for example `server.port`.")
    variable: str = Field(description="Name of the environment variable.")
    value: Any = Field(None, description="The current value. A secret that is set is masked.")
    default: Any = Field(None, description="The default.")
    source: str | None = Field(
        None, description="Where the value comes from: the environment, a file or the command line. Null: the default."
    )
    is_secret: bool
    unit: str | None = Field(None, description="Unit of the value, for example `seconds`.")
    description: str


class SettingList(ResponseModel):
    items: list[Setting]


class HealthFinding(ResponseModel):
    part: str = Field(description="The part that was checked, for example `database`.")
    status: Literal["ok", "warning", "problem"]
    message: str
    advice: str = Field("", description="What to do. Empty if nothing is to be done.")


class Health(ResponseModel):
    """The findings of `callsheet doctor` on the control plane that responds."""

    at: datetime = Field(description="When the parts were checked.")
    findings: list[HealthFinding]
