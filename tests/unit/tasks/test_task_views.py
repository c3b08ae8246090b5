"""Tasks as they are shown, and what is read from payloads: pure rules."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from callsheet.jobs.machine.rows import JobRow
from callsheet.tasks.plans import SENT_PAYLOAD, workflow_run_id
from callsheet.tasks.scraped_products import with_product
from callsheet.tasks.views import task_view
from callsheet.wire.errors import InvalidRequest
from callsheet.wire.jobs import Job, JobOutput, JobProgress, JobStatus
from callsheet.wire.tasks import job_id_of, task_id_of

AT = datetime(2026, 1, 1, tzinfo=UTC)
ID = UUID("01a1dfff-fd15-7153-b57f-bfbf70ed84a0")


def row(**changes: Any) -> JobRow:
    values = {
        "actor": "echo",
        "queue_name": "default",
        "lease_seq": 0,
        "charge_cycle": 1,
        "max_attempts": 4,
    }
    return JobRow(**{**dict.fromkeys(JobRow._fields), **values, **changes})


def job(status: JobStatus, **changes: Any) -> Job:
    values: dict[str, Any] = {"kind": "task", "charge_cycle": 1, "cost": 0, "priority": 0}
    times = {"created_at": AT, "submitted_at": AT, "deadline_at": AT + timedelta(days=1)}
    return Job(**{**values, **times, "id": ID, "status": status, **changes})


def test_only_the_id_of_its_job_is_the_id_of_a_task() -> None:
    assert job_id_of(task_id_of(ID)) == ID
    wrong = ["", "tq_", str(ID), ID.hex, f"tq_{ID.hex.upper()}", f"tq_{ID.hex}0", f"tq_{ID}", "tq_" + "g" * 32]
    assert [job_id_of(each) for each in wrong] == [None] * len(wrong)


@pytest.mark.parametrize(
    ("status", "changes", "shown"),
    [
        (JobStatus.PENDING, {}, (0, "Queued", 0, AT)),
        (JobStatus.QUEUED, {}, (0, "Queued", 0, AT)),
        (JobStatus.PROCESSING, {"started_at": AT}, (None, "Running", None, AT)),
        (
            JobStatus.COMPLETED,
            {"started_at": AT, "completed_at": AT + timedelta(seconds=2)},
            (100, "Completed", 2000, AT + timedelta(seconds=2)),
        ),
        (JobStatus.CANCELED, {"completed_at": AT}, (None, "Canceled", None, AT)),
    ],
)
def test_a_task_without_progress_gets_progress_from_its_status(
    status: JobStatus, changes: dict[str, Any], shown: tuple[Any, ...]
) -> None:
    progress = task_view(row(), job(status, **changes)).progress
    assert (progress.percent, progress.message, progress.elapsed_ms, progress.updated_at) == shown


def test_progress_of_a_running_task_is_shown() -> None:
    reported = JobProgress(job_id=ID, percent=40, message="Mixing", elapsed_ms=7, updated_at=AT)
    progress = task_view(row(lease_seq=1), job(JobStatus.PROCESSING, progress=reported)).progress
    assert (progress.percent, progress.message, progress.elapsed_ms, progress.updated_at) == (40, "Mixing", 7, AT)


@pytest.mark.parametrize(("lease_seq", "cycle", "count"), [(0, 1, 0), (1, 1, 1), (3, 1, 3), (0, 2, 1), (2, 3, 4)])
def test_a_task_that_is_in_the_queue_again_counts_as_retried(lease_seq: int, cycle: int, count: int) -> None:
    task = task_view(row(status="queued", lease_seq=lease_seq, charge_cycle=cycle), job(JobStatus.QUEUED))
    assert (task.retry_count, task.max_retries) == (count, 3)
    assert task.progress.message == (f"Retrying (attempt {lease_seq + 1})" if lease_seq else "Queued")


@pytest.mark.parametrize(("lease_seq", "cycle", "count"), [(1, 1, 0), (3, 1, 2), (2, 3, 3)])
@pytest.mark.parametrize("status", [JobStatus.PROCESSING, JobStatus.FAILED])
def test_a_task_that_runs_or_ended_counts_its_starts_after_the_first(
    status: JobStatus, lease_seq: int, cycle: int, count: int
) -> None:
    assert (
        task_view(row(status=status.value, lease_seq=lease_seq, charge_cycle=cycle), job(status)).retry_count == count
    )


def test_a_task_for_an_engine_shows_what_its_user_sent() -> None:
    built = {"workflow": {}, "assets": [{"path": "tenants/x/secret.mp4"}], SENT_PAYLOAD: {"prompt": "a cat"}}
    assert task_view(row(effect_id=ID), job(JobStatus.QUEUED), built).payload == {"prompt": "a cat"}


def test_a_task_of_a_list_has_no_payload() -> None:
    assert task_view(row(), job(JobStatus.QUEUED)).payload is None


def test_a_result_has_what_the_actor_returned_and_the_files_it_made() -> None:
    output = JobOutput(file_id=ID, name="a.png", mime_type="image/png", size=1, url="https://here")
    made = {"outputs": [{"file_id": str(ID)}], "metadata": {}, "result": {"n": 1}}
    result = task_view(row(), job(JobStatus.COMPLETED, result=made, outputs=[output])).result
    assert result is not None
    assert result.model_dump() == {
        "metadata_id": str(ID),
        "content_ids": [str(ID)],
        "urls": ["https://here"],
        "outputs": [output.model_dump()],
        "data": {"n": 1},
    }
    called_back = task_view(row(), job(JobStatus.COMPLETED, result={"outputs": [], "model": "x"})).result
    assert called_back is not None
    assert (called_back.data, called_back.metadata_id) == ({"model": "x"}, None)


def test_a_scrape_shown_as_a_task_names_the_product_it_kept() -> None:
    result = {"result": {"product": {"title": "Lamp"}}, "outputs": [], "metadata": {}, "product_id": str(ID)}
    shown = task_view(row(), job(JobStatus.COMPLETED, result=result)).result
    assert shown is not None
    assert shown.data == {"product": {"title": "Lamp"}, "product_id": str(ID)}


def test_a_run_is_named_by_the_payload() -> None:
    assert workflow_run_id({}) is None
    assert workflow_run_id({"workflow_run_id": " run-1 "}) == "run-1"
    for wrong in ("", "   ", "a\nb", 7, {}, "x" * 201):
        with pytest.raises(InvalidRequest, match="workflow_run_id"):
            workflow_run_id({"workflow_run_id": wrong})


def test_only_a_scrape_that_found_a_product_stores_one() -> None:
    found = {"title": "Lamp", "url": "https://shop.example/lamp", "extra": 1}
    kept = with_product("scrape", ID, {"result": {"product": found}})
    assert kept["result"]["product_id"] == str(ID)
    assert (kept["product"]["title"], kept["product"]["images"]) == ("Lamp", [])
    assert with_product("scrape", ID, {"result": found})["product"]["title"] == "Lamp"
    for kind, result in (
        ("copy", {"result": {"product": found}}),
        ("scrape", {}),
        ("scrape", {"result": None}),
        ("scrape", {"result": {"product": 7}}),
        ("scrape", {"result": {"product": {"title": ""}}}),
    ):
        assert with_product(kind, ID, result) == {"result": result}
