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
from callsheet.providers.engine import EngineError, NotBegun
from tests.conformance.test_engine_troubles import failed, stop
from tests.support.engine_stages import Bench, held_graph, new_run, open_bench, provider_for
from tests.support.waiting import until


@pytest.fixture
async def own_bench(engine_kind: str, tmp_path: Path, short_pauses: None) -> AsyncIterator[Bench]:
    """Without the cloud, whose queue is not one machine's."""
    async with open_bench("self_hosted", engine_kind, tmp_path) as bench:
        yield bench


@pytest.fixture
def engine_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run waits five seconds for the socket of an engine, and these engines have none."""
    monkeypatch.setattr(EngineSocket.ready, "__defaults__", (0.2,))


async def test_a_run_that_waits_too_long_behind_others_ends_unbegun_and_leaves_the_queue(bench: Bench) -> None:
    stranger = provider_for(bench.stage, bench.line)
    foreign = bench.begin(engine=stranger)
    await until(lambda: bench.seen.starts)
    engine = bench.with_patience(queue=0.2)
    error = await failed(bench.begin(new_run(held_graph()), engine=engine))
    assert isinstance(error, NotBegun)
    assert error.type == "engine_busy"
    assert bench.seen.starts == 1
    assert await bench.stage.pending() == []
    bench.stage.release()
    assert len(await foreign) == 3
    await stranger.close()


async def test_an_engine_gets_no_further_job_until_the_runs_that_were_before_ours_are_done(own_bench: Bench) -> None:
    stranger = provider_for(own_bench.stage, own_bench.line)
    foreign = own_bench.begin(engine=stranger)
    await until(lambda: own_bench.seen.starts)
    engine = own_bench.with_patience(queue=0.2)
    await failed(own_bench.begin(new_run(held_graph()), engine=engine))
    with pytest.raises(EngineError) as busy:
        await engine.describe()
    assert busy.value.type == "engine_busy"
    own_bench.stage.release()
    await foreign

    async def is_well() -> bool:
        try:
            return bool(await engine.describe())
        except EngineError:
            return False

    # Its last run leaves the queue a moment after the engine reports its end.
    await until(is_well)
    await stranger.close()


async def test_a_run_behind_one_of_our_own_waits_for_it(own_bench: Bench) -> None:
    engine = own_bench.with_patience(queue=0.01)
    first = own_bench.begin(engine=engine)
    await until(lambda: own_bench.seen.starts)
    second = own_bench.begin(new_run(held_graph()), engine=engine)
    await until(own_bench.stage.pending)
    looks = own_bench.line.looks
    await until(lambda: own_bench.line.looks > looks + 10)
    # Between the two, the engine waits for no other run, and the time depends on the machine alone.
    assert isinstance(engine, ComfyUI)
    engine._patience = replace(engine._patience, queue=3600)
    own_bench.stage.release()
    assert [len(await each) for each in (first, second)] == [3, 3]


@pytest.mark.few_forms
async def test_an_engine_that_cuts_off_every_connection_is_waited_for_with_the_submission(
    bench: Bench, engine_away: None
) -> None:
    await bench.kill()
    bench.stage.release()
    running = bench.begin()
    await until(lambda: bench.line.turned_away > 10)
    assert not running.done()
    await bench.start()
    assert len(await running) == 3


async def test_an_engine_that_refuses_every_connection_is_waited_for_with_the_submission(
    own_bench: Bench, monkeypatch: pytest.MonkeyPatch, engine_away: None
) -> None:
    engine = ComfyUI(own_bench.stage.url, patience=Patience(stall=3600, idle=3600, absent=60, poll=0.05))
    own_bench.others.append(engine)
    sends = 0
    send = engine._send

    async def counted(*run: object) -> str:
        nonlocal sends
        sends += 1
        return await send(*run)  # type: ignore[arg-type]

    monkeypatch.setattr(engine, "_send", counted)
    await own_bench.kill()
    own_bench.stage.release()
    running = own_bench.begin(engine=engine)
    # More often than a submission is repeated whose answer was lost.
    await until(lambda: sends > 5)
    assert not running.done()
    await own_bench.start()
    assert len(await running) == 3


@pytest.mark.few_forms
async def test_a_run_that_an_absent_engine_never_took_has_not_started(bench: Bench, engine_away: None) -> None:
    await bench.kill()
    error = await failed(bench.begin(engine=bench.with_patience(absent=0.3)))
    assert isinstance(error, NotBegun)
    assert error.type == "engine_unreachable"
    await bench.start()


async def test_a_run_that_a_person_removed_from_the_queue_is_distinguished_from_one_lost_in_a_restart(
    own_bench: Bench,
) -> None:
    stranger = provider_for(own_bench.stage, own_bench.line)
    foreign = own_bench.begin(engine=stranger)
    await until(lambda: own_bench.seen.starts)
    waiting = own_bench.begin(new_run(held_graph()))
    await until(own_bench.stage.pending)
    looks = own_bench.line.looks
    await until(lambda: own_bench.line.looks > looks + 10)
    async with httpx.AsyncClient(base_url=own_bench.stage.url, trust_env=False) as person:
        await person.post("/queue", json={"clear": True})
    error = await failed(waiting)
    assert isinstance(error, NotBegun)
    assert (error.type, error.message) == (
        "run_removed",
        "The run was removed from the engine's queue before it began.",
    )
    own_bench.stage.release()
    assert len(await foreign) == 3
    await stranger.close()


@pytest.fixture
async def cloud_bench(engine_kind: str, tmp_path: Path, short_pauses: None) -> AsyncIterator[Bench]:
    async with open_bench("cloud", engine_kind, tmp_path) as bench:
        yield bench


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("trouble", "type"),
    [("lost", "run_lost"), ("forgotten", "run_lost"), ("canceled", "run_removed"), ("away", "engine_unreachable")],
)
async def test_a_run_that_the_cloud_loses_while_it_waits_has_not_started(
    cloud_bench: Bench, monkeypatch: pytest.MonkeyPatch, trouble: str, type: str
) -> None:
    stranger = provider_for(cloud_bench.stage, cloud_bench.line)
    foreign = cloud_bench.begin(engine=stranger)
    await until(lambda: cloud_bench.seen.starts)
    engine = cloud_bench.with_patience(absent=0.3)
    assert isinstance(engine, ComfyCloud)
    answers: list[httpx.Response] = []
    call = engine._http.call

    async def listened(method: str, path: str, **options: Any) -> httpx.Response:
        answer = await call(method, path, **options)
        is_lost = trouble == "lost" and len(answers) > 1
        if path.endswith("/status"):
            answers.append(answer)
        return httpx.Response(200, json={"status": "lost"}) if is_lost and path.endswith("/status") else answer

    monkeypatch.setattr(engine._http, "call", listened)
    waiting = cloud_bench.begin(run := new_run(held_graph()), engine=engine)
    # It is seen to wait.
    await until(lambda: len(answers) > 1)
    if trouble == "canceled":
        remote = engine.id_of(run.id)
        await call("POST", "/api/queue", json={"delete": [remote]})
    elif trouble in ("forgotten", "away"):
        await cloud_bench.kill()
    if trouble == "forgotten":
        await cloud_bench.start()
    error = await failed(waiting)
    assert isinstance(error, NotBegun)
    assert error.type == type
    await stop(foreign)
    await stranger.close()
    if trouble == "away":
        await cloud_bench.start()


@pytest.mark.few_forms
@pytest.mark.parametrize("comes_back", [True, False], ids=["restarted", "away"])
async def test_a_run_that_is_lost_from_the_queue_has_not_started(own_bench: Bench, comes_back: bool) -> None:
    stranger = provider_for(own_bench.stage, own_bench.line)
    foreign = own_bench.begin(engine=stranger)
    await until(lambda: own_bench.seen.starts)
    waiting = own_bench.begin(new_run(held_graph()), engine=own_bench.with_patience(absent=20 if comes_back else 0.3))
    await until(own_bench.stage.pending)
    # Both look; in the end one of the looks was at a queue with ours in it.
    looks = own_bench.line.looks
    await until(lambda: own_bench.line.looks > looks + 10)
    await own_bench.kill()
    if comes_back:
        await own_bench.start()
    error = await failed(waiting)
    assert isinstance(error, NotBegun)
    assert error.type == ("run_lost" if comes_back else "engine_unreachable")
    assert ("restarted" in error.message) == comes_back
    await stop(foreign)
    await stranger.close()
    if not comes_back:
        await own_bench.start()
