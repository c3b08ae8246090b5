"""Wallets and what happens to them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field

from callsheet.wire.base import WHOLE, Answer, Line, UserRequest


class Wallet(Answer):
    balance: int


class Transaction(Answer):
    id: int
    type: Literal["PAYMENT_CREDIT", "JOB_RESERVE", "JOB_CONSUME", "JOB_REFUND"]
    amount: int
    job_id: UUID | None = None
    charge_cycle: int | None = None
    provider_transaction_id: str | None = None
    created_at: datetime


class Credit(UserRequest):
    amount: Annotated[int, Field(gt=0, le=2**53), WHOLE]
    provider_transaction_id: Line = Field(description="The payment's own id; unique per tenant.")


class Credited(Answer):
    balance: int
    replayed: bool = Field(description="Whether this payment had been credited before.")
