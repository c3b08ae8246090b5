"""The share of the workers that a tenant gets."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from callsheet.wire.base import WHOLE, Answer, UserRequest

Most = Annotated[int, Field(ge=0, le=1_000_000), WHOLE]


class TenantShare(Answer):
    """What is in force."""

    tenant: str
    weight: float = Field(description="A tenant of weight 2 has twice as many jobs in flight as one of weight 1.")
    max_running: int | None = Field(description="Most of its jobs that run at once. Null: no limit.")
    max_running_per_user: int | None = Field(description="Most jobs of one of its users that run at once.")
    running: int = Field(description="How many of its jobs are in flight now.")


class ChangeShare(UserRequest):
    """What is left out stays as it is; null takes the default again."""

    weight: Annotated[float, Field(ge=0.01, le=1000)] | None = None
    max_running: Most | None = None
    max_running_per_user: Most | None = None
