"""Providers as admins see them."""

from __future__ import annotations

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import Field

from callsheet.wire.base import Answer


class Provider(Answer):
    """Somebody who executes jobs outside, and whether it is called at the moment."""

    name: str
    finish: str = Field(description="`sync`: it is waited for. `webhook`: it calls back.")
    state: Literal["closed", "open", "half_open"] = Field(
        description="`closed`: it is called. `open`: it is not, its jobs wait. `half_open`: one job tries it."
    )
    failures: int = Field(description="Times in a row that it did not answer.")
    open_until: datetime | None = Field(None, description="When it is tried again.")
    open_for: UUID | None = Field(
        None, description="The tenant that the pause is for: only its jobs failed. Null: it is for all tenants."
    )
    open_calls: int = Field(description="Calls that are waited for, fetched or canceled.")
    last_error: str | None = None
    last_error_at: datetime | None = None


class Providers(Answer):
    providers: list[Provider]
