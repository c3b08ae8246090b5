"""The task worker against a control plane that is away, loses responses or breaks, with actors that do not end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from uuid import UUID, uuid4

import pytest

from callsheet.providers.actor import Deferred, Done, Plan, Task
from callsheet.providers.media import Callback, Generation, Prediction, WebhookProvider, found_or_submitted
from callsheet.wire.worker.protocol import HeartbeatResponse, PollRequest, PollResponse, WorkerJob
from callsheet.worker.agent.departure import DRAINED_EXIT_CODE
from callsheet.worker.agent.plane import RefusedRequest, Unreachable
from callsheet.worker.tasks import task_agent, task_run
from callsheet.worker.tasks.task_agent import TaskAgent, TaskConfig
from tests.support.waiting import PATIENCE_SECONDS, until

NO_TENANT = UUID(int=0)


def job(actor: str = "actor", dispatch_id: int = 1) -> WorkerJob:
    return WorkerJob(
        dispatch_id=dispatch_id,
        lease_token=uuid4(),
        lease_expires_at=datetime.now(UTC),
        lease_ttl_seconds=30,
        tenant_id=NO_TENANT,
        job_id=uuid4(),
        effect_id=None,
        kind="task",
        actor=actor,
        provider="self_hosted",
        run_limit_seconds=60,
        input_payload={},
        input_file=None,
        output_file=None,
        input_url=None,
        output_url=None,
        output_headers={},
    )


@dataclass
class ScriptedPlane:
    """Responds to each poll with the next of `script`, an error or a job; after that there are no jobs."""

    script: list[Exception | WorkerJob | str]
    is_registered: bool = False
    polls: list[PollRequest] = field(default_factory=list)
    reports: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    # What is refused, by its kind.
    refuses: Mapping[str, Exception] = field(default_factory=dict)
    cancels: bool = False

    async def enter(self) -> None:
        self.is_registered = True

    async def poll(self, request: PollRequest) -> PollResponse:
        self.polls.append(request)
        if not self.script:
            await asyncio.Event().wait()
        match self.script.pop(0):
            case Exception() as error:
                raise error
            case WorkerJob() as given:
                return PollResponse(job=given)
            case reason:
                return PollResponse(job=None, reason=reason)

    async def heartbeat(self, request: dict[str, Any]) -> HeartbeatResponse:
        return HeartbeatResponse(
            lease_expires_at=datetime.now(UTC), lease_ttl_seconds=30, cancel_requested=self.cancels
        )

    async def report(self, kind: str, body: dict[str, Any]) -> str:
        self.reports.append((kind, body))
        if kind in self.refuses:
            raise self.refuses[kind]
        return "completed"

    async def leave(self, reason: str) -> None:
        self.is_registered = False

    def pause(self, failures: int, error: Exception | None = None) -> float:
        return 0.0


@dataclass
class Doing:
    """An actor that does this."""

    do: Callable[[Task], Any]
    name: str = "actor"
    paid: bool = False

    def plan(self, payload: Mapping[str, Any]) -> Plan:
        return Plan()

    async def run(self, task: Task) -> Done | Deferred:
        await self.do(task)
        return Done({})


async def nothing(task: Task) -> None:
    pass


@dataclass
class Deaf:
    """An actor that ignores cancellation and runs until it is released."""

    let_go: asyncio.Event = field(default_factory=asyncio.Event)
    received: int = 0
    is_over: bool = False

    async def do(self, task: Task) -> None:
        while not self.let_go.is_set():
            try:
                await self.let_go.wait()
            except asyncio.CancelledError:
                self.received += 1
        self.is_over = True

    async def end(self) -> None:
        self.let_go.set()
        await until(lambda: self.is_over)


@asynccontextmanager
async def working(
    tmp_path: Path, plane: ScriptedPlane, do: Callable[[Task], Any] = nothing, **changes: Any
) -> AsyncIterator[tuple[TaskAgent, asyncio.Task[None]]]:
    chosen = {"max_concurrency": 1, "polls_at_once": 1, "heartbeat_seconds": 0.01, "stop_seconds": 0.0, **changes}
    config = TaskConfig(tmp_path / "tasks", ("self_hosted",), **chosen)
    agent = TaskAgent(config, plane, {"actor": Doing(do)})
    running = asyncio.create_task(agent.run())
    try:
        yield agent, running
    finally:
        agent.departure.begin("the test is over", 0)
        await asyncio.gather(running, return_exceptions=True)


async def test_a_poll_whose_response_was_lost_is_repeated_with_the_same_id(tmp_path: Path) -> None:
    plane = ScriptedPlane([Unreachable("lost"), RefusedRequest(500, "odd", "odd"), job()])
    async with working(tmp_path, plane):
        await until(lambda: len(plane.polls) == 4)
    ids = [request.poll_id for request in plane.polls]
    assert len(set(ids[:3])) == 1
    assert ids[3] != ids[0]
    assert [kind for kind, _ in plane.reports] == ["complete"]


async def test_each_poll_names_the_leases_that_the_worker_holds(tmp_path: Path) -> None:
    done = asyncio.Event()
    first, second = job(), job(dispatch_id=2)
    plane = ScriptedPlane([first, second])

    async def wait(task: Task) -> None:
        await done.wait()

    async with working(tmp_path, plane, wait, max_concurrency=3):
        await until(lambda: len(plane.polls) == 3)
        done.set()
        await until(lambda: len(plane.reports) == 2)
    assert [each.active_leases for each in plane.polls[:3]] == [
        [],
        [first.lease_token],
        [first.lease_token, second.lease_token],
    ]


async def test_an_actor_that_ignores_its_cancel_is_abandoned_and_its_slot_is_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_run, "LET_GO_SECONDS", 0.01)
    deaf = Deaf()
    plane = ScriptedPlane([job()], cancels=True)
    async with working(tmp_path, plane, deaf.do):
        await until(lambda: len(plane.polls) == 2)
        [(kind, body)] = plane.reports
        assert (kind, body["error"]["type"], deaf.received) == ("fail", "canceled", 1)
    await deaf.end()


async def test_a_stopping_worker_does_not_wait_for_an_actor_that_ignores_its_cancel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_run, "LET_GO_SECONDS", 0.01)
    deaf = Deaf()
    plane = ScriptedPlane([job()])
    async with working(tmp_path, plane, deaf.do) as (agent, running):
        await until(lambda: agent._runs)
        agent.departure.begin("stops", 0)
        await running
    assert [kind for kind, _ in plane.reports] == ["requeue"]
    assert not plane.is_registered
    await deaf.end()


async def test_a_worker_that_cannot_register_can_still_be_stopped(tmp_path: Path) -> None:
    class Away(ScriptedPlane):
        async def enter(self) -> None:
            entering.set()
            await asyncio.Event().wait()

    entering = asyncio.Event()
    plane = Away([])
    async with working(tmp_path, plane) as (agent, running):
        await entering.wait()
        agent.departure.begin("stops", 0)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await running
    assert plane.polls == []


async def test_a_crashed_slot_stops_the_worker_cleanly_with_an_error(tmp_path: Path) -> None:
    plane = ScriptedPlane([job(), KeyError("a bug")])
    forever = asyncio.Event()

    async def do(task: Task) -> None:
        await forever.wait()

    async with working(tmp_path, plane, do, max_concurrency=2, polls_at_once=2) as (agent, running):
        with pytest.raises(KeyError):
            await running
        assert not agent.takes_tasks
    assert [kind for kind, _ in plane.reports] == ["requeue"]
    assert not plane.is_registered


async def test_an_actor_that_cancels_itself_fails_its_task_and_keeps_the_slot(tmp_path: Path) -> None:
    async def gives_up(task: Task) -> None:
        raise asyncio.CancelledError

    plane = ScriptedPlane([job()])
    async with working(tmp_path, plane, gives_up) as (_, running):
        await until(lambda: len(plane.polls) == 2)
        assert not running.done()
    [(kind, body)] = plane.reports
    assert (kind, body["error"]["type"]) == ("fail", "actor_error")


async def test_the_error_of_a_broken_actor_names_the_exception_without_secrets(tmp_path: Path) -> None:
    async def breaks(task: Task) -> None:
        raise KeyError("no password=hunter2 in the settings")

    plane = ScriptedPlane([job()])
    async with working(tmp_path, plane, breaks):
        await until(lambda: len(plane.polls) == 2)
    [(_, body)] = plane.reports
    assert body["error"]["message"].startswith("KeyError: ")
    assert "hunter2" not in str(body)


@pytest.mark.parametrize(
    "error", [RefusedRequest(413, "body_too_large", "too large"), TypeError("no JSON"), ValueError()]
)
async def test_a_refused_report_is_followed_by_a_failure_report(tmp_path: Path, error: Exception) -> None:
    plane = ScriptedPlane([job()], refuses={"complete": error})
    async with working(tmp_path, plane):
        await until(lambda: len(plane.polls) == 2)
    assert [kind for kind, _ in plane.reports] == ["complete", "fail"]
    assert plane.reports[1][1]["error"]["type"] == "result_refused"


async def test_a_failure_report_that_is_refused_is_sent_once_more_and_then_dropped(tmp_path: Path) -> None:
    async def breaks(task: Task) -> None:
        raise RuntimeError

    plane = ScriptedPlane([job()], refuses={"fail": RefusedRequest(422, "invalid_request", "odd")})
    async with working(tmp_path, plane, breaks):
        await until(lambda: len(plane.polls) == 2)
    assert [kind for kind, _ in plane.reports] == ["fail", "fail"]
    assert plane.reports[1][1]["error"]["traceback"] is None


async def test_a_drained_worker_waits_or_leaves_with_a_code_of_its_own(tmp_path: Path) -> None:
    leaving, staying = ScriptedPlane(["draining"]), ScriptedPlane(["draining"])
    async with working(tmp_path / "one", leaving, leaves_when_drained=True) as (agent, running):
        await running
        assert agent.departure.exit_code == DRAINED_EXIT_CODE
    assert not leaving.is_registered
    async with working(tmp_path / "other", staying) as (agent, running):
        await until(lambda: agent._is_draining)
        assert not agent.takes_tasks
        assert not running.done()
    assert agent.departure.exit_code == 0


def test_an_abandoned_actor_does_not_delay_the_end() -> None:
    assert task_run.LET_GO_SECONDS < task_agent.REPORT_SECONDS < task_agent.END_SECONDS


@dataclass
class Submitting:
    """An actor of a provider that calls back, and is slow to take what it is given."""

    accepts: asyncio.Event = field(default_factory=asyncio.Event)
    started: int = 0
    name: str = "actor"
    paid: bool = False

    def plan(self, payload: Mapping[str, Any]) -> Plan:
        return Plan()

    async def submit(self, generation: Generation, callback: Callback) -> Prediction:
        self.started += 1
        await self.accepts.wait()
        return Prediction("prediction-1", "running")

    async def run(self, task: Task) -> Done | Deferred:
        provider = cast("WebhookProvider", self)
        made = await found_or_submitted(provider, Generation("txt2img", "a cat"), Callback("https://x.example", False))
        return Deferred(made.id, 3600)


async def test_a_job_submitted_to_the_provider_while_the_worker_stops_is_still_reported(tmp_path: Path) -> None:
    plane, slow = ScriptedPlane([job()]), Submitting()
    async with working(tmp_path, plane, nothing) as (agent, running):
        agent.actors = {"actor": slow}
        await until(lambda: slow.started)
        agent.departure.begin("stops", 0)
        await until(lambda: any(run._keeper.over.is_set() for run in agent._runs))
        slow.accepts.set()
        await running
    [(kind, body)] = plane.reports
    assert (kind, body["provider_job_id"]) == ("defer", "prediction-1")
