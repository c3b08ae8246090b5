"""Weights and limits of tenants in the queue."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from callsheet.wire.base import NUMBER, WHOLE, ResponseModel, UserRequest

JobLimit = Annotated[int, Field(ge=0, le=1_000_000), WHOLE]


class TenantWeight(ResponseModel):
    """The current weight and limits of a tenant."""

    tenant: str
    weight: float = Field(description="A tenant of weight 2 has twice as many jobs in flight as one of weight 1.")
    max_running: int | None = Field(description="Largest number of the tenant's jobs that run at once. Null: no limit.")
    max_running_per_user: int | None = Field(description="Largest number of jobs of one user that run at once.")
    running: int = Field(description="Number of the tenant's jobs that run now.")


class ChangeTenantWeight(UserRequest):
    """Fields that you leave out do not change. Null restores the default."""

    weight: Annotated[float, Field(ge=0.01, le=1000), NUMBER] | None = None
    max_running: JobLimit | None = None
    max_running_per_user: JobLimit | None = None
