"""Wallets and what happens to them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final, Literal
from uuid import UUID

from pydantic import Field

from callsheet.wire.base import WHOLE, Answer, Line, UserRequest
from callsheet.wire.jobs import JobStatus

# The most a wallet may have, with what its active jobs hold: the largest number that every reader of JSON can hold.
# The database enforces it (migration 0010 of the pools).
MOST_TOKENS: Final = 2**53


class Wallet(Answer):
    balance: int = Field(description="Tokens that can be spent, without the tokens that active jobs hold.")
    held: int = Field(
        description="Tokens that active jobs hold: spent when the job completes, given back when it ends otherwise."
    )


class Hold(Answer):
    """Tokens that an active job holds."""

    job_id: UUID
    amount: int
    title: str | None = Field(None, description="Name of the effect or actor.")
    input_name: str | None = Field(None, description="Name of the job's input file.")
    status: JobStatus
    since: datetime = Field(description="When they were reserved.")


class Transaction(Answer):
    id: int
    type: Literal["PAYMENT_CREDIT", "JOB_RESERVE", "JOB_CONSUME", "JOB_REFUND"]
    amount: int
    kept: int = Field(
        0,
        description="For JOB_REFUND: tokens that were not refunded, because the job had spent them when it was "
        "canceled (`refund_on_cancel` of its workflow).",
    )
    job_id: UUID | None = None
    charge_cycle: int | None = None
    provider_transaction_id: str | None = None
    created_at: datetime
    title: str | None = Field(
        None, description="Name of the job's effect or actor, and of its input. Null once the job was deleted."
    )
    reason: str = Field("", description="What happened, as a sentence for people.")

    @property
    def reference(self) -> str:
        """The payment or the job that the transaction belongs to."""
        return self.provider_transaction_id or str(self.job_id)


class Credit(UserRequest):
    amount: Annotated[int, Field(gt=0, le=MOST_TOKENS), WHOLE]
    provider_transaction_id: Line = Field(
        description="Id of the payment at the payment provider. It is unique per tenant."
    )


class Credited(Answer):
    balance: int
    replayed: bool = Field(description="Whether this payment had been credited before.")
