"""Lines of the ledger read as sentences."""

from __future__ import annotations

from typing import Any

import pytest

from callsheet.wallet.reasons import reason_of, title_of

JOB: dict[str, Any] = {"title": "Claymation", "input_name": "fox.mp4", "cost": 7, "kept": 0, "ended": None}


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"type": "PAYMENT_CREDIT", "title": None, "input_name": None, "cost": None}, "Tokens were added."),
        ({"type": "JOB_RESERVE"}, "Held for Claymation, fox.mp4."),
        ({"type": "JOB_RESERVE", "title": None, "input_name": None}, "Held for a job."),
        ({"type": "JOB_CONSUME", "cost": 0}, "Free: Claymation, fox.mp4."),
        ({"type": "JOB_CONSUME"}, "7 tokens were spent on Claymation, fox.mp4."),
        ({"type": "JOB_CONSUME", "cost": 1, "input_name": None}, "1 token was spent on Claymation."),
        ({"type": "JOB_REFUND", "ended": "failed"}, "Given back: Claymation, fox.mp4 failed."),
        ({"type": "JOB_REFUND", "ended": "expired"}, "Given back: Claymation, fox.mp4 expired."),
        ({"type": "JOB_REFUND", "ended": None}, "Given back: Claymation, fox.mp4 did not complete."),
        (
            {"type": "JOB_REFUND", "ended": "canceled", "kept": 3},
            "Given back: Claymation, fox.mp4 was canceled. 3 tokens were spent before that.",
        ),
    ],
)
def test_a_line_says_what_happened(row: dict[str, Any], reason: str) -> None:
    assert reason_of(JOB | row) == reason


def test_a_job_that_was_deleted_has_no_title() -> None:
    assert title_of(JOB | {"title": None, "input_name": None}) is None
