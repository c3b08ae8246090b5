"""Describes a transaction of the ledger in a sentence. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, NamedTuple
from uuid import UUID

from callsheet.wire.plurals import counted

_ENDS = {"failed": "failed", "canceled": "was canceled", "expired": "expired"}


class TransactionRow(NamedTuple):
    id: int
    user_id: UUID
    # Whether it is a line of the wallet of the tenant.
    of_tenant: bool
    type: Literal["PAYMENT_CREDIT", "PAYMENT_DEBIT", "JOB_RESERVE", "JOB_CONSUME", "JOB_REFUND"]
    amount: int
    kept: int
    job_id: UUID | None
    charge_cycle: int | None
    provider_transaction_id: str | None
    created_at: datetime
    # Why tokens were taken back.
    note: str | None
    # Cost and status of the job. The status is None if the job was retried after this charge cycle.
    cost: int | None
    job_status: str | None
    # Effect or actor of the job, and the name of its input.
    title: str | None
    input_name: str | None


def title_of(row: TransactionRow) -> str | None:
    """The job of a transaction: its effect or actor, and its input."""
    names = [name for name in (row.title, row.input_name) if name]
    return ", ".join(names) or None


def reason_of(row: TransactionRow) -> str:
    job = title_of(row) or "a job"
    if row.cost == 0:
        return f"Free: {job}."
    match row.type:
        case "PAYMENT_CREDIT":
            return "Tokens were added."
        case "PAYMENT_DEBIT":
            return f"Tokens were taken back: {(row.note or '').rstrip('.')}."
        case "JOB_RESERVE":
            return f"Held for {job}."
        case "JOB_CONSUME":
            return f"{_tokens(row.cost or 0)} spent on {job}."
    # The cycle is an earlier one of a job that was retried.
    end = _ENDS.get(row.job_status or "", "did not complete")
    if not row.kept:
        return f"Refund for {job}: the job {end}."
    return f"Refund for {job}: the job {end}. {_tokens(row.kept)} spent before that."


def _tokens(number: int) -> str:
    return counted(number, "token was", "tokens were")
