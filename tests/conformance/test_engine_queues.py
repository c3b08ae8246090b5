"""A run that waits behind others in an engine's own queue, and one that the engine never took."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from callsheet.providers.comfy.cloud import ComfyCloud
from callsheet.providers.comfy.self_hosted import ComfyUI, Patience
from callsheet.providers.comfy.socket import EngineSocket
from callsheet.providers.engine import EngineError, NotStarted
from tests.conformance.test_engine_failures import failed, stop
from tests.support.comfyui.engine_setups import EngineSetup, held_graph, new_run, open_engine_setup, provider_for
from tests.support.waiting import until


@pytest.fixture
async def own_engine_setup(engine_kind: str, tmp_path: Path, short_pauses: None) -> AsyncIterator[EngineSetup]:
    """Without the cloud, whose queue is not one machine's."""
    async with open_engine_setup("self_hosted", engine_kind, tmp_path) as engine_setup:
        yield engine_setup


@pytest.fixture
def engine_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run waits five seconds for the socket of an engine, and these engines have none."""
    monkeypatch.setattr(EngineSocket.ready, "__defaults__", (0.2,))


async def test_a_run_that_waits_too_long_is_removed_from_the_queue_and_counts_as_not_started(
    engine_setup: EngineSetup,
) -> None:
    stranger = provider_for(engine_setup.engine_server, engine_setup.line)
    foreign = engine_setup.begin(engine=stranger)
    await until(lambda: engine_setup.seen.starts)
    engine = engine_setup.with_patience(queue=0.2)
    error = await failed(engine_setup.begin(new_run(held_graph()), engine=engine))
    assert isinstance(error, NotStarted)
    assert error.type == "engine_busy"
    assert engine_setup.seen.starts == 1
    assert await engine_setup.engine_server.pending() == []
    engine_setup.engine_server.release()
    assert len(await foreign) == 3
    await stranger.close()


async def test_an_engine_gets_no_further_job_until_earlier_runs_of_other_clients_are_done(
    own_engine_setup: EngineSetup,
) -> None:
    stranger = provider_for(own_engine_setup.engine_server, own_engine_setup.line)
    foreign = own_engine_setup.begin(engine=stranger)
    await until(lambda: own_engine_setup.seen.starts)
    engine = own_engine_setup.with_patience(queue=0.2)
    await failed(own_engine_setup.begin(new_run(held_graph()), engine=engine))
    with pytest.raises(EngineError) as busy:
        await engine.describe()
    assert busy.value.type == "engine_busy"
    own_engine_setup.engine_server.release()
    await foreign

    async def is_healthy() -> bool:
        try:
            return bool(await engine.describe())
        except EngineError:
            return False

    # Its last run leaves the queue a moment after the engine reports its end.
    await until(is_healthy)
    await stranger.close()


async def test_a_run_waits_for_an_earlier_run_of_the_same_agent(own_engine_setup: EngineSetup) -> None:
    engine = own_engine_setup.with_patience(queue=0.01)
    first = own_engine_setup.begin(engine=engine)
    await until(lambda: own_engine_setup.seen.starts)
    second = own_engine_setup.begin(new_run(held_graph()), engine=engine)
    await until(own_engine_setup.engine_server.pending)
    polls = own_engine_setup.line.polls
    await until(lambda: own_engine_setup.line.polls > polls + 10)
    # Between the two, the engine waits for no other run, and the time depends on the machine alone.
    assert isinstance(engine, ComfyUI)
    engine._patience = replace(engine._patience, queue=3600)
    own_engine_setup.engine_server.release()
    assert [len(await each) for each in (first, second)] == [3, 3]


@pytest.mark.few_forms
async def test_the_submission_waits_for_an_engine_that_drops_every_connection(
    engine_setup: EngineSetup, engine_away: None
) -> None:
    await engine_setup.kill()
    engine_setup.engine_server.release()
    running = engine_setup.begin()
    await until(lambda: engine_setup.line.turned_away > 10)
    assert not running.done()
    await engine_setup.start()
    assert len(await running) == 3


async def test_the_submission_waits_for_an_engine_that_refuses_every_connection(
    own_engine_setup: EngineSetup, monkeypatch: pytest.MonkeyPatch, engine_away: None
) -> None:
    engine = ComfyUI(own_engine_setup.engine_server.url, patience=Patience(stall=3600, idle=3600, absent=60, poll=0.05))
    own_engine_setup.others.append(engine)
    sends = 0
    send = engine._send

    async def counted(*run: object) -> str:
        nonlocal sends
        sends += 1
        return await send(*run)  # type: ignore[arg-type]

    monkeypatch.setattr(engine, "_send", counted)
    await own_engine_setup.kill()
    own_engine_setup.engine_server.release()
    running = own_engine_setup.begin(engine=engine)
    # More often than a submission is repeated whose answer was lost.
    await until(lambda: sends > 5)
    assert not running.done()
    await own_engine_setup.start()
    assert len(await running) == 3


@pytest.mark.few_forms
async def test_a_run_that_an_absent_engine_never_took_has_not_started(
    engine_setup: EngineSetup, engine_away: None
) -> None:
    await engine_setup.kill()
    error = await failed(engine_setup.begin(engine=engine_setup.with_patience(absent=0.3)))
    assert isinstance(error, NotStarted)
    assert error.type == "engine_unreachable"
    await engine_setup.start()


async def test_a_run_that_a_person_removed_from_the_queue_is_distinguished_from_one_lost_in_a_restart(
    own_engine_setup: EngineSetup,
) -> None:
    stranger = provider_for(own_engine_setup.engine_server, own_engine_setup.line)
    foreign = own_engine_setup.begin(engine=stranger)
    await until(lambda: own_engine_setup.seen.starts)
    waiting = own_engine_setup.begin(new_run(held_graph()))
    await until(own_engine_setup.engine_server.pending)
    polls = own_engine_setup.line.polls
    await until(lambda: own_engine_setup.line.polls > polls + 10)
    async with httpx.AsyncClient(base_url=own_engine_setup.engine_server.url, trust_env=False) as person:
        await person.post("/queue", json={"clear": True})
    error = await failed(waiting)
    assert isinstance(error, NotStarted)
    assert (error.type, error.message) == (
        "run_removed",
        "The run was removed from the engine's queue before it started.",
    )
    own_engine_setup.engine_server.release()
    assert len(await foreign) == 3
    await stranger.close()


@pytest.fixture
async def cloud_engine_setup(engine_kind: str, tmp_path: Path, short_pauses: None) -> AsyncIterator[EngineSetup]:
    async with open_engine_setup("cloud", engine_kind, tmp_path) as engine_setup:
        yield engine_setup


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("trouble", "type"),
    [("lost", "run_lost"), ("forgotten", "run_lost"), ("canceled", "run_removed"), ("away", "engine_unreachable")],
)
async def test_a_run_that_the_cloud_loses_while_it_waits_has_not_started(
    cloud_engine_setup: EngineSetup, monkeypatch: pytest.MonkeyPatch, trouble: str, type: str
) -> None:
    stranger = provider_for(cloud_engine_setup.engine_server, cloud_engine_setup.line)
    foreign = cloud_engine_setup.begin(engine=stranger)
    await until(lambda: cloud_engine_setup.seen.starts)
    engine = cloud_engine_setup.with_patience(absent=0.3)
    assert isinstance(engine, ComfyCloud)
    responses: list[httpx.Response] = []
    call = engine._http.call

    async def listened(method: str, path: str, **options: Any) -> httpx.Response:
        response = await call(method, path, **options)
        is_lost = trouble == "lost" and len(responses) > 1
        if path.endswith("/status"):
            responses.append(response)
        return httpx.Response(200, json={"status": "lost"}) if is_lost and path.endswith("/status") else response

    monkeypatch.setattr(engine._http, "call", listened)
    waiting = cloud_engine_setup.begin(run := new_run(held_graph()), engine=engine)
    # It is seen to wait.
    await until(lambda: len(responses) > 1)
    if trouble == "canceled":
        remote = engine.id_of(run.id)
        await call("POST", "/api/queue", json={"delete": [remote]})
    elif trouble in ("forgotten", "away"):
        await cloud_engine_setup.kill()
    if trouble == "forgotten":
        await cloud_engine_setup.start()
    error = await failed(waiting)
    assert isinstance(error, NotStarted)
    assert error.type == type
    await stop(foreign)
    await stranger.close()
    if trouble == "away":
        await cloud_engine_setup.start()


@pytest.mark.few_forms
@pytest.mark.parametrize("comes_back", [True, False], ids=["restarted", "away"])
async def test_a_run_that_is_lost_from_the_queue_has_not_started(
    own_engine_setup: EngineSetup, comes_back: bool
) -> None:
    stranger = provider_for(own_engine_setup.engine_server, own_engine_setup.line)
    foreign = own_engine_setup.begin(engine=stranger)
    await until(lambda: own_engine_setup.seen.starts)
    waiting = own_engine_setup.begin(
        new_run(held_graph()), engine=own_engine_setup.with_patience(absent=20 if comes_back else 0.3)
    )
    await until(own_engine_setup.engine_server.pending)
    # Both look; in the end one of the looks was at a queue with ours in it.
    polls = own_engine_setup.line.polls
    await until(lambda: own_engine_setup.line.polls > polls + 10)
    await own_engine_setup.kill()
    if comes_back:
        await own_engine_setup.start()
    error = await failed(waiting)
    assert isinstance(error, NotStarted)
    assert error.type == ("run_lost" if comes_back else "engine_unreachable")
    assert ("restarted" in error.message) == comes_back
    await stop(foreign)
    await stranger.close()
    if not comes_back:
        await own_engine_setup.start()
