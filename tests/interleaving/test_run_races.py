"""Starting runs: one per key, and never more active ones than a user may have, however often users click."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from callsheet.pipelines.design.definitions import ROW_BYTES
from callsheet.pipelines.run.runs import StartedRun
from callsheet.wire.errors import IdempotencyKeyReused, NotFound, TooManyActiveRuns, WrongState
from callsheet.wire.operate.quotas import ChangeQuotas
from callsheet.wire.pipelines.pipelines import CreateRun, Pipeline, UpdatePipeline
from tests.support.jobs.race import Race
from tests.support.jobs.race_control import open_transaction, start_blocked
from tests.support.media.media_harness import open_media_harness, principal_of
from tests.support.pipelines.pipeline_harness import PipelineHarness, open_pipeline_harness

LOCK_WALLET = "SELECT wallet_lock($1, $2)"
USED = "SELECT bytes FROM database_usage WHERE tenant_id = $1 AND user_id = $2"
Planes = tuple[PipelineHarness, PipelineHarness]


@pytest.fixture
async def planes(race: Race, tmp_path: Path) -> AsyncIterator[Planes]:
    async with AsyncExitStack() as stack:
        harnesses = [
            await stack.enter_async_context(open_media_harness(core, race.ann, tmp_path / "home"))
            for core in (race.one, race.two)
        ]
        one, two = [open_pipeline_harness(media.core, race.ann, media, runs_per_user=2) for media in harnesses]
        yield one, two


async def begin(pipelines: PipelineHarness, pipeline: Pipeline, **changes: Any) -> StartedRun:
    request = {"name": "A run", "prompt": "a gym", "budget": 100, **changes}
    return await pipelines.room.runs.start(
        principal_of(pipelines.ann), pipeline.slug, CreateRun.model_validate(request)
    )


async def at_once(race: Race, planes: Planes, pipeline: Pipeline, *requests: dict[str, Any]) -> list[Any]:
    """Each at a control plane of its own; all of them wait for the wallet, and are let go together."""
    async with open_transaction(race.pool, LOCK_WALLET, race.ann.tenant_id, race.ann.user_id):
        works = [begin(pipelines, pipeline, **request) for pipelines, request in zip(planes, requests, strict=True)]
        tasks = await start_blocked(race.pool, *works)
    return await asyncio.gather(*tasks, return_exceptions=True)


async def runs_of(pipelines: PipelineHarness) -> int:
    query = "SELECT 1 FROM pipeline_runs WHERE tenant_id = $1"
    return len(await pipelines.core.rows(pipelines.ann.pool, query, pipelines.ann.tenant_id))


async def test_a_double_click_starts_one_run(race: Race, planes: Planes) -> None:
    pipeline = await planes[0].pipeline("base")
    request = {"idempotency_key": "once"}
    (first, was_first_there), (second, was_there) = await at_once(race, planes, pipeline, request, request)
    assert (was_first_there, was_there) == (False, True)
    assert first.id == second.id
    again, was_there = await begin(planes[0], pipeline, **request)
    assert (again.id, was_there) == (first.id, True)
    assert await runs_of(planes[0]) == 1


async def test_the_later_of_two_different_requests_with_one_key_is_refused(race: Race, planes: Planes) -> None:
    pipeline = await planes[0].pipeline("base")
    requests = [{"idempotency_key": "once", "budget": budget} for budget in (10, 20)]
    responses = await at_once(race, planes, pipeline, *requests)
    assert [type(response) for response in responses] == [StartedRun, IdempotencyKeyReused]
    with pytest.raises(IdempotencyKeyReused):
        await begin(planes[1], await planes[0].pipeline("other"), **requests[0])
    assert await runs_of(planes[0]) == 1


async def test_the_second_of_two_concurrent_runs_above_the_limit_is_refused(race: Race, planes: Planes) -> None:
    pipeline = await planes[0].pipeline("base")
    paused, _ = await begin(planes[0], pipeline)
    ann = principal_of(planes[0].ann)
    await planes[0].room.runs.pause(ann, paused.id)
    await begin(planes[0], pipeline)
    responses = await at_once(race, planes, pipeline, {}, {})
    assert [type(response) for response in responses] == [StartedRun, TooManyActiveRuns]
    # One that was paused is one too many as well, until there is room.
    with pytest.raises(TooManyActiveRuns):
        await planes[1].room.runs.resume(ann, paused.id)
    await planes[1].room.runs.cancel(ann, responses[0][0].id)
    assert (await planes[1].room.runs.resume(ann, paused.id)).status == "active"


async def test_a_repeated_request_for_the_last_allowed_run_returns_that_run(race: Race, planes: Planes) -> None:
    pipeline = await planes[0].pipeline("base")
    await begin(planes[0], pipeline)
    request = {"idempotency_key": "once"}
    (first, _), (second, was_there) = await at_once(race, planes, pipeline, request, request)
    assert was_there
    assert first.id == second.id


async def test_a_run_that_is_deleted_and_resumed_at_once_is_either_gone_or_active(race: Race, planes: Planes) -> None:
    one, two = planes
    pipeline, ann = await one.pipeline("base"), principal_of(one.ann)
    for works in (("delete", "resume"), ("resume", "delete")):
        run, _ = await begin(one, pipeline)
        query = "UPDATE pipeline_runs SET status = 'completed', ended_at = clock_timestamp() WHERE id = $1"
        await one.core.rows(one.ann.pool, query, run.id)
        actions = {"delete": one.room.deletion.delete(ann, run.id), "resume": two.room.runs.resume(ann, run.id)}
        async with open_transaction(race.pool, LOCK_WALLET, race.ann.tenant_id, race.ann.user_id):
            tasks = await start_blocked(race.pool, *(actions[work] for work in works))
        first, second = await asyncio.gather(*tasks, return_exceptions=True)
        assert not isinstance(first, BaseException)
        # The later one sees what the earlier one did.
        assert type(second) is (NotFound if works[0] == "delete" else WrongState)
        if works[0] == "resume":
            assert (await one.shown(run)).status == "active"
            await one.room.runs.cancel(ann, run.id)


async def test_two_control_planes_remove_a_run_once(race: Race, planes: Planes) -> None:
    one, two = planes
    run, _ = await begin(one, await one.pipeline("base"))
    await one.room.runs.cancel(principal_of(one.ann), run.id)
    await one.room.deletion.delete(principal_of(one.ann), run.id)
    claimed = await asyncio.gather(one.room.deletion.remove_due(race.pool), two.room.deletion.remove_due(race.pool))
    assert sorted(claimed) == [False, True]
    assert await runs_of(one) == 0


async def test_one_of_two_changed_pipelines_gets_the_last_bytes_of_their_user(race: Race, planes: Planes) -> None:
    made = [await planes[0].pipeline(name) for name in ("one", "two")]
    [row] = await planes[0].core.rows(race.pool, USED, race.ann.tenant_id, race.ann.user_id)
    limits = ChangeQuotas(user_database_bytes=row["bytes"] + ROW_BYTES)
    for plane in planes:
        await plane.media.room.usage.quotas.change("test", race.ann.tenant_id, limits)

    async def change(plane: PipelineHarness, pipeline: Pipeline) -> Pipeline:
        steps = [{"name": step.name, "workflow": step.workflow, "needs_run_prompt": True} for step in pipeline.steps]
        request = UpdatePipeline.model_validate({"steps": [{**each, "max_children": 7} for each in steps]})
        return await plane.room.pipelines.update(principal_of(plane.ann), pipeline.slug, request)

    async with open_transaction(race.pool, f"{USED} FOR UPDATE", race.ann.tenant_id, race.ann.user_id):
        works = [change(plane, pipeline) for plane, pipeline in zip(planes, made, strict=True)]
        tasks = await start_blocked(race.pool, *works)
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert sorted(type(each).__name__ for each in outcomes) == ["Pipeline", "QuotaExceeded"]
    [after] = await planes[0].core.rows(race.pool, USED, race.ann.tenant_id, race.ann.user_id)
    assert after["bytes"] == row["bytes"] + ROW_BYTES
