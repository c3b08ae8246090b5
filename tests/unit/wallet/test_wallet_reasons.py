"""Lines of the ledger read as sentences."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from callsheet.wallet.reasons import TransactionRow, reason_of, title_of

JOB = TransactionRow(
    id=1,
    type="JOB_RESERVE",
    amount=-7,
    kept=0,
    job_id=UUID(int=1),
    charge_cycle=1,
    provider_transaction_id=None,
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
    note=None,
    cost=7,
    job_status=None,
    title="Claymation",
    input_name="fox.mp4",
    user_id=UUID(int=2),
    of_tenant=False,
)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"type": "PAYMENT_CREDIT", "title": None, "input_name": None, "cost": None}, "Tokens were added."),
        ({"type": "PAYMENT_DEBIT", "note": "A chargeback"}, "Tokens were taken back: A chargeback."),
        ({"type": "JOB_RESERVE"}, "Held for Claymation, fox.mp4."),
        ({"type": "JOB_RESERVE", "title": None, "input_name": None}, "Held for a job."),
        ({"type": "JOB_CONSUME", "cost": 0}, "Free: Claymation, fox.mp4."),
        ({"type": "JOB_CONSUME"}, "7 tokens were spent on Claymation, fox.mp4."),
        ({"type": "JOB_CONSUME", "cost": 1, "input_name": None}, "1 token was spent on Claymation."),
        ({"type": "JOB_REFUND", "job_status": "failed"}, "Refund for Claymation, fox.mp4: the job failed."),
        ({"type": "JOB_REFUND", "job_status": "expired"}, "Refund for Claymation, fox.mp4: the job expired."),
        ({"type": "JOB_REFUND", "job_status": None}, "Refund for Claymation, fox.mp4: the job did not complete."),
        (
            {"type": "JOB_REFUND", "job_status": "canceled", "kept": 3},
            "Refund for Claymation, fox.mp4: the job was canceled. 3 tokens were spent before that.",
        ),
    ],
)
def test_each_transaction_has_a_readable_reason(row: dict[str, Any], reason: str) -> None:
    assert reason_of(JOB._replace(**row)) == reason


def test_a_job_that_was_deleted_has_no_title() -> None:
    assert title_of(JOB._replace(title=None, input_name=None)) is None
