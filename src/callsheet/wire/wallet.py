"""Wallets and what happens to them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final, Literal
from uuid import UUID

from pydantic import Field

from callsheet.wire.base import WHOLE, Answer, Line, UserRequest

# The most a wallet may have, with what its active jobs hold: the largest number that every reader of JSON can hold.
# The database enforces it (migration 0010 of the pools).
MOST_TOKENS: Final = 2**53


class Wallet(Answer):
    balance: int = Field(description="Tokens that can be spent. What active jobs hold is not among them.")


class Transaction(Answer):
    id: int
    type: Literal["PAYMENT_CREDIT", "JOB_RESERVE", "JOB_CONSUME", "JOB_REFUND"]
    amount: int
    kept: int = Field(
        0,
        description="Of a JOB_REFUND: tokens that were not given back, because the job had spent them when it was "
        "canceled (`refund_on_cancel` of its workflow).",
    )
    job_id: UUID | None = None
    charge_cycle: int | None = None
    provider_transaction_id: str | None = None
    created_at: datetime

    @property
    def reference(self) -> str:
        """The payment or the job that the transaction belongs to."""
        return self.provider_transaction_id or str(self.job_id)


class Credit(UserRequest):
    amount: Annotated[int, Field(gt=0, le=MOST_TOKENS), WHOLE]
    provider_transaction_id: Line = Field(description="The payment's own id; unique per tenant.")


class Credited(Answer):
    balance: int
    replayed: bool = Field(description="Whether this payment had been credited before.")
