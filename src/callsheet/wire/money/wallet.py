"""The models of wallets and their transactions."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from pydantic import Field

from callsheet.wire.base import WHOLE, Line, ResponseModel, UserRequest
from callsheet.wire.jobs import JobStatus

# The maximum number of tokens of a wallet, including the tokens that its active jobs hold: the largest number that
# every reader of JSON can hold. The database enforces it (migration 0010 of the pools).
MAX_TOKENS: Final = 2**53


# Whose wallet new jobs are paid from: each user's own, or one wallet of the tenant for all its users.
Payer = Literal["user", "tenant"]


def payer(*, is_tenant: bool) -> Payer:
    return "tenant" if is_tenant else "user"


class Wallet(ResponseModel):
    balance: int = Field(description="Tokens that can be spent, without the tokens that active jobs hold.")
    held: int = Field(
        description="Tokens that active jobs hold: spent when the job completes, given back when it ends otherwise. "
        "In your own wallet, those of your jobs, also if the tenant pays for them."
    )
    paid_by: Payer = Field(
        "user",
        description="Whose wallet new jobs are paid from. `tenant`: all users of the tenant pay from its wallet, and "
        "`balance` of your own wallet is the balance of that one.",
    )


class ChangeTenantWallet(UserRequest):
    paid_by: Payer = Field(
        description="Whose wallet new jobs and retries are paid from. Jobs that are active keep the wallet that they "
        "were paid from."
    )


class Hold(ResponseModel):
    """Tokens that an active job holds."""

    job_id: UUID
    amount: int
    title: str | None = Field(None, description="Name of the effect, actor or workflow.")
    input_name: str | None = Field(None, description="Name of the job's input file.")
    status: JobStatus
    since: datetime = Field(description="When the tokens were reserved.")


class Transaction(ResponseModel):
    id: int
    user_id: UUID | None = Field(
        None, description="The user of the job or of the payment. Null: a payment of the tenant."
    )
    paid_by: Payer = Field("user", description="The wallet whose balance changed: of the user, or of the tenant.")
    type: Literal["PAYMENT_CREDIT", "PAYMENT_DEBIT", "JOB_RESERVE", "JOB_CONSUME", "JOB_REFUND"]
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
    reason: str = Field("", description="The reason of the transaction as a sentence.")

    @property
    def reference(self) -> str:
        """The payment or the job that the transaction belongs to."""
        return self.provider_transaction_id or str(self.job_id)


class Credit(UserRequest):
    amount: Annotated[int, Field(gt=0, le=MAX_TOKENS), WHOLE]
    provider_transaction_id: Line | None = Field(
        None,
        description="Id of the payment at the payment provider. It is unique per tenant. Without it, the header "
        "Idempotency-Key is required.",
    )
    reason: Line | None = Field(None, description="Why the tokens are given, for the audit log.")


class CreditResponse(ResponseModel):
    balance: int
    replayed: bool = Field(description="Whether this payment had been credited before.")


class Debit(UserRequest):
    """Tokens to take back, for example after a chargeback."""

    amount: Annotated[int, Field(gt=0, le=MAX_TOKENS), WHOLE]
    reason: Line = Field(description="Why the tokens are taken back. The user reads it in the wallet.")
    provider_transaction_id: Line | None = Field(
        None,
        description="Id of the chargeback at the payment provider. It is unique among the debits of the tenant. "
        "Without it, the header Idempotency-Key is required.",
    )


class DebitResponse(ResponseModel):
    balance: int
    replayed: bool = Field(description="Whether these tokens had been taken back before.")


class LedgerFinding(ResponseModel):
    rule: Literal["balances", "settlements", "strays", "room", "budgets"] = Field(
        description="`balances`: a balance is not the sum of its transactions. `settlements`: a charge cycle of a job "
        "has not exactly one reserve and one settlement, both of one wallet. `strays`: a transaction belongs to no "
        "charge cycle of a job. `room`: a wallet has no room for the tokens that its active jobs hold. `budgets`: what "
        "was taken of a budget is not the sum of its reserves."
    )
    row: dict[str, Any] = Field(description="The row that breaks the rule. Each rule has its own columns.")


class PoolAudit(ResponseModel):
    """The audit of one pool. The totals are those of the audit's snapshot, in tokens."""

    pool: str
    started_at: datetime | None = None
    finished_at: datetime | None = None
    error: str | None = Field(None, description="Why the pool could not be audited.")
    wallets: int | None = Field(None, description="Number of wallets.")
    transactions: int | None = Field(None, description="Number of transactions.")
    balance: int | None = Field(None, description="Tokens in all wallets.")
    held: int | None = Field(None, description="Tokens that active jobs hold.")
    credited: int | None = Field(None, description="Tokens that were ever credited.")
    spent: int | None = Field(None, description="Tokens that were ever spent.")
    findings: int | None = Field(None, description="Number of rows that break a rule. Null until the pool is finished.")
    first_findings: list[LedgerFinding] | None = Field(None, description="The first 100 findings. Not in lists.")


class LedgerAudit(ResponseModel):
    """A check that every balance is the sum of its transactions, and that each job was charged and settled once."""

    id: int
    requested_by: str
    requested_by_email: str | None = Field(None, description="E-mail address of the user who requested the audit.")
    requested_at: datetime
    finished_at: datetime | None = None
    state: Literal["running", "balanced", "findings", "incomplete"] = Field(
        description="`incomplete`: no finding, but a pool was not available."
    )
    pools: list[PoolAudit]
