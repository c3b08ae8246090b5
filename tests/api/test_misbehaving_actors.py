"""Actors that misbehave in the control plane's own process: their task ends, and nothing else is affected."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from callsheet.app.in_process import plane as in_process_plane
from callsheet.providers.actor import Task
from callsheet.providers.errors import ProviderError
from tests.support.http.accounts import Person
from tests.support.http.actor_harness import ActorHarness
from tests.support.waiting import until

ECHO_COST = 3
Response = Callable[[Task], Mapping[str, Any]]


@pytest.fixture
async def ann(actor_harness: ActorHarness) -> Person:
    return await actor_harness.person()


async def played(
    actor_harness: ActorHarness, ann: Person, monkeypatch: pytest.MonkeyPatch, response: Response, status: str
) -> dict[str, Any]:
    """A task whose actor returns this; the same worker runs another task afterwards."""
    with monkeypatch.context() as patched:
        patched.setattr(actor_harness.actors["echo"], "response", response)
        task = await actor_harness.submit(ann, "echo", max_retries=0)
        shown = await actor_harness.ended(ann, task, status)
    await actor_harness.ended(ann, await actor_harness.submit(ann, "echo"))
    assert actor_harness.plane.rooms.task_runner is not None
    assert actor_harness.plane.rooms.task_runner.is_ready
    return shown


def _nested() -> list[Any]:
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    return deep


@pytest.mark.few_forms
@pytest.mark.parametrize(
    "result",
    [
        {"at": datetime(2026, 1, 1, tzinfo=UTC)},
        {"number": math.nan},
        {"text": "a\0b"},
        {"text": "\ud800"},
        {"set": {1, 2}},
        {"deep": _nested()},
        {"large": "x" * 2_000_000},
        ["no object"],
    ],
    ids=["a moment", "no number", "nul", "half a letter", "a set", "too deep", "too large", "no object"],
)
async def test_a_result_that_cannot_be_stored_fails_its_task_at_once(
    actor_harness: ActorHarness, ann: Person, monkeypatch: pytest.MonkeyPatch, result: Any
) -> None:
    shown = await played(actor_harness, ann, monkeypatch, lambda task: result, "failed")
    assert shown["error"]["type"] in ("result_refused", "actor_error")
    # But for the one after it.
    assert await actor_harness.balance(ann) == 100 - ECHO_COST


async def test_a_result_of_an_in_process_actor_is_read_as_json(
    actor_harness: ActorHarness, ann: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = await played(actor_harness, ann, monkeypatch, lambda task: {"pair": (1, 2)}, "completed")
    assert shown["result"]["data"] == {"pair": [1, 2]}


def _gives_up(task: Task) -> Mapping[str, Any]:
    raise asyncio.CancelledError


def _exits(task: Task) -> Mapping[str, Any]:
    raise SystemExit(3)


@pytest.mark.parametrize("response", [_gives_up, _exits])
async def test_an_actor_that_raises_cancel_or_exit_fails_only_its_own_task(
    actor_harness: ActorHarness, ann: Person, monkeypatch: pytest.MonkeyPatch, response: Response
) -> None:
    shown = await played(actor_harness, ann, monkeypatch, response, "failed")
    assert shown["error"]["type"] == "actor_error"


async def test_an_error_whose_details_cannot_be_serialized_is_reported_without_them(
    actor_harness: ActorHarness, ann: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    def response(task: Task) -> Mapping[str, Any]:
        raise ProviderError("bad_weather", "It rained.", details={"cloud": object()})

    shown = await played(actor_harness, ann, monkeypatch, response, "failed")
    assert shown["error"]["type"] == "bad_weather"
    full = await actor_harness.jobs_api.full_error(ann, shown["job_id"])
    assert (full["message"], full["details"]["reported"]) == ("It rained.", "It rained.")


async def test_unwritable_progress_is_dropped_and_the_lease_is_kept(
    actor_harness: ActorHarness, ann: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    painter = actor_harness.actors["echo"]
    painter.gate.clear()
    task = await actor_harness.submit(ann, "echo")
    await until(lambda: painter.tasks)
    for percent, message in [(math.nan, "half"), (math.inf, None), (50.0, "a\ud800b")]:
        painter.tasks[-1].report_progress(percent, message)
        painter.tasks[-1].report_progress(25.0, "Mixing colours")

    async def is_shown() -> bool:
        progress = (await actor_harness.get(ann, task))["progress"]
        return progress is not None and progress["message"] == "Mixing colours"

    await until(is_shown)
    painter.gate.set()
    assert (await actor_harness.ended(ann, task))["retry_count"] == 0


async def test_a_drained_runner_takes_no_task_until_the_drain_is_undone(
    actor_harness: ActorHarness,
) -> None:
    runner = actor_harness.plane.rooms.task_runner
    assert runner is not None
    path = f"/api/admin/workers/{runner.worker_id}"
    bob = await actor_harness.person()
    assert (await actor_harness.ask(actor_harness.jobs_api.admin, "POST", f"{path}/drain")).status_code == 200
    try:
        waiting = await actor_harness.submit(bob, "echo")
        await until(lambda: not runner.is_ready)

        # A poll that waited may have been given it, and gives it back as soon as it looks at its worker again.
        async def is_back() -> bool:
            return (await actor_harness.get(bob, waiting))["status"] == "queued"

        await until(is_back)
    finally:
        assert (await actor_harness.ask(actor_harness.jobs_api.admin, "POST", f"{path}/undrain")).status_code == 200
    await actor_harness.ended(bob, waiting)


async def test_a_revoked_runner_takes_no_task_until_it_is_approved_and_registers_again(
    actor_harness: ActorHarness, ann: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_process_plane, "RETRY_CAP_SECONDS", 0.1)
    runner, echo, admin = (
        actor_harness.plane.rooms.task_runner,
        actor_harness.actors["echo"],
        actor_harness.jobs_api.admin,
    )
    assert runner is not None
    echo.gate.clear()
    task = await actor_harness.submit(ann, "echo")
    await until(lambda: echo.tasks)
    path = f"/api/admin/workers/{runner.worker_id}"
    assert (await actor_harness.ask(admin, "POST", f"{path}/revoke")).status_code == 200
    # The worker learns it from the heartbeat of the task it runs: from then on it starts nothing.
    await until(lambda: not runner.is_ready)
    assert (await actor_harness.ask(admin, "POST", f"{path}/approve")).status_code == 200
    echo.gate.set()
    await actor_harness.ended(ann, task)
    # Its waiting polls may have leased the job and returned it; it was started once before, and once after.
    assert len(echo.tasks) == 2
    for each in await asyncio.gather(*(actor_harness.submit(ann, "echo") for _ in range(5))):
        await actor_harness.ended(ann, each)
    assert runner.is_ready
