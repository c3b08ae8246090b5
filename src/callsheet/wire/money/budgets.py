"""The messages of budgets and of spending."""

from __future__ import annotations

from datetime import date, datetime
from enum import StrEnum
from typing import Annotated
from uuid import UUID

from pydantic import Field, StringConstraints

from callsheet.wire.base import WHOLE, Line, ResponseModel, UserRequest
from callsheet.wire.money.wallet import MAX_TOKENS

TokenLimit = Annotated[int, Field(ge=0, le=MAX_TOKENS), WHOLE]
ZONE_PATTERN = r"^[A-Za-z][A-Za-z0-9_+/-]{0,63}$"
TimeZone = Annotated[str, StringConstraints(pattern=ZONE_PATTERN)]
Provider = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,62}$")]


class BudgetPeriod(StrEnum):
    DAY = "day"
    WEEK = "week"
    MONTH = "month"


class CreateBudget(UserRequest):
    """A limit of the tokens that jobs take in each period. It counts jobs that match all of its fields, from its
    creation on.
    """

    name: Line = Field(description="Name of the budget, which a refused request shows. Each has another name.")
    user_id: UUID | None = Field(None, description="Only jobs of this user. Null: of all users of the tenant.")
    key_id: UUID | None = Field(None, description="Only jobs that this API key submits, and those of its runs.")
    provider: Provider | None = Field(
        None, description="Only jobs that this provider executes, for example `replicate` or `self_hosted`."
    )
    period: BudgetPeriod = Field(description="A week begins on Monday.")
    time_zone: TimeZone = Field("UTC", description="Periods begin at midnight there, for example `Europe/Berlin`.")
    limit: TokenLimit = Field(description="Most tokens that jobs take in one period.")


class ChangeBudget(UserRequest):
    """Fields that you leave out do not change. A new limit applies from now on, also in the current period."""

    name: Line | None = None
    limit: TokenLimit | None = None


class Budget(ResponseModel):
    """A budget in its current period."""

    id: UUID
    name: str
    user_id: UUID | None = None
    user: str | None = Field(None, description="E-mail address of the user. Null if the user was deleted.")
    key_id: UUID | None = None
    key: str | None = Field(None, description="Name of the key.")
    provider: str | None = None
    period: BudgetPeriod
    time_zone: str
    limit: int
    taken: int = Field(description="Tokens that jobs of this period hold or have spent.")
    left: int = Field(description="Tokens that jobs can still take in this period.")
    starts_at: datetime
    resets_at: datetime = Field(description="When the next period begins.")
    warned_at: datetime | None = Field(None, description="When 80 % of the limit were taken in this period.")
    reached_at: datetime | None = Field(
        None, description="When the whole limit was taken in this period, or the budget refused the first job."
    )
    created_at: datetime


class OwnBudget(ResponseModel):
    """A budget that counts jobs of the caller."""

    id: UUID
    name: str
    key_id: UUID | None = Field(None, description="Only jobs that this API key of yours submits.")
    key: str | None = Field(None, description="Name of the key.")
    provider: str | None = Field(None, description="Only jobs that this provider executes.")
    is_shared: bool = Field(description="It counts jobs of other users of the tenant, too. Its numbers are left out.")
    period: BudgetPeriod
    time_zone: str
    limit: int | None = None
    taken: int | None = Field(None, description="Tokens that your jobs of this period hold or have spent.")
    left: int | None = Field(None, description="Tokens that your jobs can still take in this period.")
    resets_at: datetime = Field(description="When the next period begins.")
    is_warned: bool = Field(description="At least 80 % of the limit were taken in this period.")
    is_reached: bool = Field(description="The whole limit was taken in this period, or a job was refused.")


class OwnBudgets(ResponseModel):
    budgets: list[OwnBudget] = Field(description="Newest first. A tenant has at most 200 budgets.")


class PastPeriod(ResponseModel):
    """What was taken of a budget in one period."""

    first_day: date
    starts_at: datetime
    resets_at: datetime
    taken: int
    warned_at: datetime | None = None
    reached_at: datetime | None = None


class PastPeriods(ResponseModel):
    periods: list[PastPeriod] = Field(description="Newest first, at most 100. Periods without jobs are left out.")


class SpendingBy(StrEnum):
    KEY = "key"
    EFFECT = "effect"
    PROVIDER = "provider"
    USER = "user"


class SpendingRow(ResponseModel):
    first_day: date = Field(description="The first day of the period.")
    subject: str | None = Field(
        None, description="Id of the key, effect or user, or the provider. Null: jobs without a key or an effect."
    )
    name: str | None = Field(None, description="Name of the subject.")
    jobs: int = Field(description="Jobs that were submitted in the period.")
    tokens: int = Field(description="What these jobs cost: tokens they hold or have spent, without refunds.")


class TenantSpending(ResponseModel):
    by: SpendingBy
    period: BudgetPeriod
    time_zone: str
    since: datetime
    until: datetime
    tokens: int = Field(description="Sum of all rows.")
    rows: list[SpendingRow] = Field(description="By period, the largest first.")
    is_complete: bool = Field(description="False: there are more rows. Choose a shorter time.")
