"""What a line of the ledger says, as a sentence for people. Pure."""

from __future__ import annotations

from callsheet.plumbing.sql import Row

_ENDS = {"failed": "failed", "canceled": "was canceled", "expired": "expired"}


def title_of(row: Row) -> str | None:
    """The job of a line: its effect or actor, and what it works on."""
    names = [name for name in (row["title"], row["input_name"]) if name]
    return ", ".join(names) or None


def reason_of(row: Row) -> str:
    job = title_of(row) or "a job"
    if row["cost"] == 0:
        return f"Free: {job}."
    match row["type"]:
        case "PAYMENT_CREDIT":
            return "Tokens were added."
        case "JOB_RESERVE":
            return f"Held for {job}."
        case "JOB_CONSUME":
            return f"{_tokens(row['cost'])} spent on {job}."
    # An earlier cycle of a job that was retried.
    end = _ENDS.get(row["ended"], "did not complete")
    if not row["kept"]:
        return f"Given back: {job} {end}."
    return f"Given back: {job} {end}. {_tokens(row['kept'])} spent before that."


def _tokens(number: int) -> str:
    return "1 token was" if number == 1 else f"{number} tokens were"
