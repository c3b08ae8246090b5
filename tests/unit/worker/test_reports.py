"""Reports as they are kept on disk."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import pytest

from callsheet.wire.worker.protocol import WorkerJob
from callsheet.worker.agent import reports
from callsheet.worker.agent.plane import Plane as PlaneClient
from callsheet.worker.agent.plane import Unreachable
from callsheet.worker.agent.reports import QueuedReport, ReportBox, RunOf, report_in

LEASE: dict[str, Any] = {"dispatch_id": 7, "lease_token": str(uuid4())}
RUN = str(uuid4())


@pytest.mark.parametrize("failures", [0, 2])
async def test_a_report_that_is_not_sent_at_once_survives_a_crash_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    kept: list[bool] = []

    def write(path: Path, value: dict[str, Any], *, survives_machine_crash: bool) -> None:
        kept.append(survives_machine_crash)
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(value))

    class Plane:
        left = failures

        async def report(self, kind: str, body: dict[str, Any]) -> str:
            if self.left:
                self.left -= 1
                raise Unreachable("away")
            return "completed"

        def pause(self, failures: int, error: Exception | None = None) -> float:
            return 0.0

    monkeypatch.setattr(reports, "write_private", write)
    box = ReportBox(tmp_path, cast("PlaneClient", Plane()))
    job = cast("WorkerJob", SimpleNamespace(**LEASE))
    assert await box.send(job, QueuedReport("complete", dict(LEASE))) == "completed"
    assert kept == ([False, True] if failures else [False])
    assert box.is_empty


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
