"""The display of a watched job."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from io import StringIO
from uuid import uuid4

import pytest
from rich.console import Console

from callsheet.cli.shared.display import BAR_WIDTH, TASK_STAGES, JobDisplay, transfer
from callsheet.wire.jobs import JobEvent, JobProgress, JobStatus
from callsheet.wire.worker.protocol import UPLOADING

NOW = datetime(2026, 1, 1, tzinfo=UTC)
JOB = uuid4()


def moved(status: JobStatus) -> JobEvent:
    return JobEvent(job_id=JOB, seq=1, event="job.transition", to_status=status, actor="test", at=NOW)


def progress(percent: float | None, message: str = "SaveVideo 1/2 [red]") -> JobProgress:
    return JobProgress(job_id=JOB, percent=percent, message=message, updated_at=NOW)


WHOLE_LIFE = (
    moved(JobStatus.PENDING),
    moved(JobStatus.QUEUED),
    moved(JobStatus.PROCESSING),
    progress(None),
    progress(50.0),
    progress(99.0),
    progress(66.0, UPLOADING),
    moved(JobStatus.COMPLETED),
)


def watched(console: Console, *updates: JobEvent | JobProgress | str) -> JobDisplay:
    with JobDisplay(console) as display:
        for item in updates:
            display.lost(item) if isinstance(item, str) else display.show(item)
    return display


def test_each_stage_is_one_line_in_a_pipe() -> None:
    written = StringIO()
    display = watched(Console(file=written), *WHOLE_LIFE)
    assert [line.split()[-1] for line in written.getvalue().splitlines()] == list(display.stages)
    assert list(display.stages) == ["queue", "lease", "render", "upload", "done"]


def test_a_task_shows_no_stage_that_only_engine_jobs_have() -> None:
    written = StringIO()
    with JobDisplay(Console(file=written), TASK_STAGES) as display:
        for event in WHOLE_LIFE:
            display.show(event)
    assert list(display.stages) == ["queue", "lease", "done"]
    assert len(written.getvalue().splitlines()) == 3


@pytest.mark.parametrize("width", [80, 120])
def test_a_terminal_shows_one_line_with_a_bar_that_is_full_at_the_end(width: int) -> None:
    written = StringIO()
    watched(Console(file=written, force_terminal=True, width=width), *WHOLE_LIFE)
    drawn = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line) for line in re.split(r"[\r\n]+", written.getvalue())]
    last = [line for line in drawn if line.strip()][-1]
    assert last.strip().startswith("queue → lease → render → upload → done")
    assert last.count("━") == BAR_WIDTH
    # Drawn over itself each time, and never broken into a second line.
    assert all("queue" in line for line in drawn if line.strip())


def test_a_stage_that_ended_before_it_was_shown_is_shown_at_the_end() -> None:
    written = StringIO()
    quick = (moved(JobStatus.QUEUED), moved(JobStatus.PROCESSING), moved(JobStatus.COMPLETED))
    display = watched(Console(file=written), *quick)
    assert [line.split()[-1] for line in written.getvalue().splitlines()] == list(display.stages)
    assert list(display.stages) == ["queue", "lease", "render", "upload", "done"]


def test_a_stage_that_ended_before_the_latest_event_is_shown_before_it() -> None:
    written = StringIO()
    display = watched(Console(file=written), WHOLE_LIFE[0], moved(JobStatus.PROCESSING), *WHOLE_LIFE[-2:])
    assert list(display.stages) == ["queue", "lease", "render", "upload", "done"]


def test_a_job_that_goes_back_to_the_queue_is_shown_there_again() -> None:
    written = StringIO()
    again = (moved(JobStatus.QUEUED), moved(JobStatus.PROCESSING), moved(JobStatus.QUEUED), moved(JobStatus.PROCESSING))
    watched(Console(file=written), *again)
    assert [line.split()[-1] for line in written.getvalue().splitlines()] == ["queue", "lease", "queue", "lease"]


def test_a_lost_connection_is_reported_once() -> None:
    written = StringIO()
    updates = (moved(JobStatus.QUEUED), "refused", "refused", moved(JobStatus.PROCESSING), "refused")
    watched(Console(file=written), *updates)
    assert written.getvalue().count("connection lost") == 2


@pytest.mark.parametrize("terminal", [True, False])
def test_a_transfer_names_its_file_as_it_is(terminal: bool) -> None:
    written = StringIO()
    console = Console(file=written, force_terminal=terminal, width=120, markup=False)
    with transfer(console, "Uploading a[b].mp4", 100) as counted:
        counted(100, 100)
    assert "Uploading a[b].mp4" in written.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_the_reason_to_wait_is_shown_once_and_only_while_the_job_waits(terminal: bool) -> None:
    written = StringIO()
    with JobDisplay(Console(file=written, force_terminal=terminal, width=120)) as display:
        display.show(moved(JobStatus.QUEUED))
        display.waits("No worker is online.")
        display.waits("No worker is online.")
        display.show(moved(JobStatus.PROCESSING))
        display.waits("Others come first.")
    printed = written.getvalue()
    assert "Others come first." not in printed
    assert terminal or printed.count("No worker is online.") == 1
