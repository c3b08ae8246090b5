"""Reports as they are kept on disk."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from callsheet.worker.reports import QueuedReport, RunOf, report_in

LEASE: dict[str, Any] = {"dispatch_id": 7, "lease_token": str(uuid4())}
RUN = str(uuid4())


def test_a_stored_report_is_read_again() -> None:
    kept = {"kind": "requeue", "body": {**LEASE, "reason": "killed"}, "run": {"provider": "self_hosted", "id": RUN}}
    assert report_in(kept) == QueuedReport("requeue", {**LEASE, "reason": "killed"}, RunOf("self_hosted", RUN))


@pytest.mark.parametrize(
    "damaged",
    [
        {},
        {"kind": "requeue"},
        {"kind": "register", "body": LEASE},
        {"kind": ["requeue"], "body": LEASE},
        {"kind": "requeue", "body": [1]},
        {"kind": "requeue", "body": {"dispatch_id": 7}},
        {"kind": "requeue", "body": {**LEASE, "lease_token": "half of one"}},
        {"kind": "complete", "body": {**LEASE, "outputs": [{"name": ""}]}},
    ],
)
def test_a_damaged_report_is_not_read(damaged: dict[str, Any]) -> None:
    assert report_in(damaged) is None


@pytest.mark.parametrize(
    "run", [None, [], {"id": RUN}, {"provider": "self_hosted", "id": "../../etc"}, {"provider": 1}]
)
def test_an_invalid_run_in_a_report_is_ignored(run: object) -> None:
    assert report_in({"kind": "requeue", "body": LEASE, "run": run}) == QueuedReport("requeue", LEASE)
