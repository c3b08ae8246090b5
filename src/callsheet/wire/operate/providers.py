"""Providers as admins see them."""

from __future__ import annotations

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import Field

from callsheet.wire.base import ResponseModel


class Provider(ResponseModel):
    """An external provider that runs jobs, and whether jobs are currently sent to it."""

    name: str
    finish: str = Field(description="`sync`: the worker waits for the result. `webhook`: the provider calls back.")
    state: Literal["closed", "open", "half_open"] = Field(
        description="`closed`: jobs are sent to the provider. `open`: the provider is paused and its jobs wait. "
        "`half_open`: one job tests the provider."
    )
    failures: int = Field(description="Number of failed calls in a row.")
    open_until: datetime | None = Field(None, description="When the next attempt is made.")
    open_for: UUID | None = Field(
        None, description="The tenant that is paused, because only its jobs failed. Null: the pause is for all tenants."
    )
    open_calls: int = Field(
        description="Number of open calls: waiting for a callback, fetching a result, or canceling."
    )
    failed_dispatches: list[int] = Field(
        default_factory=list, description="Ids of the dispatches whose calls failed, in a row, as evidence."
    )
    failed_tenants: list[UUID] = Field(default_factory=list, description="Ids of the tenants of these dispatches.")
    pause_seconds: float | None = Field(None, description="Length of the current pause, in seconds.")
    last_error: str | None = None
    last_error_at: datetime | None = None


class Providers(ResponseModel):
    providers: list[Provider]


class SpendWindow(ResponseModel):
    """The use of a provider in some time."""

    calls: int = Field(description="Attempts of jobs that ended in this time.")
    completed: int
    failed: int = Field(description="Jobs that failed or expired.")
    tokens: int = Field(description="Tokens that users were charged: costs of completed jobs, parts of canceled ones.")
    estimated_money: float | None = Field(
        None,
        description="Calls times the price of one call. Null if `tasks.provider_prices` does not have the provider.",
    )


class ProviderSpend(ResponseModel):
    provider: str
    price_per_call: float | None = Field(None, description="From `tasks.provider_prices`.")
    last_24h: SpendWindow
    last_30d: SpendWindow


class ProviderSpending(ResponseModel):
    """Calls and charged tokens of each provider, of engines too. Counted once a minute, in steps of ten minutes."""

    currency: str = Field(description="Currency of all amounts. From the setting `tasks.currency`.")
    providers: list[ProviderSpend]
    unavailable_pools: list[str] = Field(
        default_factory=list, description="Pools whose tokens are missing, because their database is not available."
    )
