"""A crash in each gap of a call that calls back: the next start brings the job to its end, paid and made once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from callsheet.plumbing.failpoints import Failpoint
from tests.support.jobs.core import Core, Member, open_core
from tests.support.jobs.crashes import crashed_at
from tests.support.media.media_harness import open_media_harness
from tests.support.providers.provider_calls import HELD, CallHarness, open_call_harness
from tests.support.providers.replicate_server import ReplicateServer, Scenario

IMAGE = Scenario()


@pytest.fixture
async def call_harness(
    core: Core, ann: Member, tmp_path: Path, replicate: ReplicateServer
) -> AsyncIterator[CallHarness]:
    async with open_call_harness(core, ann, tmp_path, replicate) as call_harness:
        yield call_harness


async def handed_over_but_no_worker_got_the_response(call_harness: CallHarness) -> bool:
    await call_harness.submit()
    return await crashed_at(Failpoint.WEBHOOK_INTENT_BEFORE_RESPONSE, call_harness.hand_over())


async def submitted_but_not_deferred(call_harness: CallHarness) -> bool:
    await call_harness.call(await call_harness.new_call())
    return True


async def deferred_but_the_call_does_not_know(call_harness: CallHarness) -> bool:
    handed = await call_harness.new_call()
    prediction = await call_harness.call(handed)
    return await crashed_at(Failpoint.WEBHOOK_DEFER_BEFORE_CALL, call_harness.defer(handed, prediction.id))


async def called_back_but_without_a_response(call_harness: CallHarness) -> bool:
    handed, prediction = await call_harness.waiting()
    crashed = await crashed_at(
        Failpoint.WEBHOOK_CALLBACK_BEFORE_RESPONSE, call_harness.call_back(handed, prediction.id, IMAGE)
    )
    # The provider got no response, so it sends the callback again.
    await call_harness.call_back(handed, prediction.id)
    return crashed


async def poll_and_lose_the_response(call_harness: CallHarness) -> bool:
    _, prediction = await call_harness.waiting()
    call_harness.replicate.end(prediction.id, IMAGE)
    await call_harness.hurry()
    return await crashed_at(Failpoint.WEBHOOK_STATUS_BEFORE_RECORD, call_harness.work())


async def fetched_but_not_completed(call_harness: CallHarness) -> bool:
    handed, prediction = await call_harness.waiting()
    await call_harness.call_back(handed, prediction.id, IMAGE)
    crashed = await crashed_at(Failpoint.WEBHOOK_COLLECT_BEFORE_COMPLETE, call_harness.work())
    # Nothing is paid for, and no user has a file yet.
    assert len(await call_harness.core.ledger(call_harness.ann, handed.job_id)) == 1
    assert await call_harness.files(handed.job_id) == []
    assert len(await call_harness.objects()) == 1
    return crashed


async def completed_but_the_dispatch_is_open(call_harness: CallHarness) -> bool:
    handed, prediction = await call_harness.waiting()
    await call_harness.call_back(handed, prediction.id, IMAGE)
    return await crashed_at(Failpoint.COMPLETE_BEFORE_CLOSE, call_harness.work())


async def completed_but_the_call_is_open(call_harness: CallHarness) -> bool:
    handed, prediction = await call_harness.waiting()
    await call_harness.call_back(handed, prediction.id, IMAGE)
    return await crashed_at(Failpoint.WEBHOOK_COMPLETE_BEFORE_END, call_harness.work())


OPERATIONS: tuple[Callable[[CallHarness], Awaitable[bool]], ...] = (
    handed_over_but_no_worker_got_the_response,
    submitted_but_not_deferred,
    deferred_but_the_call_does_not_know,
    called_back_but_without_a_response,
    poll_and_lose_the_response,
    fetched_but_not_completed,
    completed_but_the_dispatch_is_open,
    completed_but_the_call_is_open,
)


async def brought_home(call_harness: CallHarness) -> None:
    """What the loops and a worker do with what a crash left behind, in fast motion."""
    for _ in range(4):
        for row in await call_harness.core.rows(call_harness.core.databases.central, "SELECT * FROM ai_job_dispatches"):
            if row["status"] == "leased":
                await call_harness.core.expire_lease(row["dispatch_id"])
        await call_harness.core.reap()
        started = await call_harness.core.lease(criteria=call_harness.core.criteria(providers=("replicate",)))
        if started is not None:
            handed = await call_harness.hand_over(started)
            await call_harness.defer(handed, (await call_harness.call(handed)).id)
        for prediction in call_harness.replicate.predictions.values():
            if prediction["status"] in ("starting", "processing"):
                call_harness.replicate.end(prediction["id"], IMAGE)
        await call_harness.hurry()
        await call_harness.work()


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.__name__)
async def test_a_crash_at_any_failpoint_leaves_one_prediction_one_result_and_one_charge(
    call_harness: CallHarness,
    operation: Callable[[CallHarness], Awaitable[bool]],
    tmp_path: Path,
    replicate: ReplicateServer,
) -> None:
    replicate.scenario, replicate.deliver = HELD, "never"
    assert await operation(call_harness)
    await call_harness.core.check()
    next_life = open_core(call_harness.core.databases)
    next_life.workflow = call_harness.core.workflow
    async with open_call_harness(next_life, call_harness.ann, tmp_path, replicate) as again:
        await brought_home(again)
        [job] = await next_life.rows(call_harness.ann.pool, "SELECT id, status FROM ai_jobs")
        assert job["status"] == "completed"
        assert await again.consumed(job["id"])
        assert len(replicate.submitted) == 1
        [file] = await again.files(job["id"])
        [call] = await next_life.rows(next_life.databases.central, "SELECT * FROM provider_calls")
        assert call["work"] is None
        await next_life.check_drained()
        # What a collector that died had fetched goes with the sweeper of outputs; what the user has stays.
        async with open_media_harness(next_life, call_harness.ann, tmp_path) as media:
            await media.sweep()
        assert await again.objects() == {file["path"]}


async def test_a_cancel_that_crashed_is_sent_again_and_ends(call_harness: CallHarness) -> None:
    handed, prediction = await call_harness.waiting()
    await call_harness.core.room.cancellation.cancel(call_harness.ann.tenant_id, handed.job_id, actor="user")
    assert await crashed_at(Failpoint.WEBHOOK_CANCEL_BEFORE_END, call_harness.work())
    assert call_harness.replicate.predictions[prediction.id]["status"] == "canceled"
    assert (await call_harness.row(handed))["work"] == "cancel"
    assert await call_harness.finished(handed) == "canceled"
    assert (await call_harness.row(handed))["work"] is None
    await call_harness.core.check_drained()


async def test_a_control_plane_that_stops_hands_its_work_to_the_next_at_once(call_harness: CallHarness) -> None:
    handed, prediction = await call_harness.waiting()
    await call_harness.call_back(handed, prediction.id, Scenario(output="{files}/slow.png"))
    await call_harness.room.calls.tick(datetime.now(UTC))
    await call_harness.room.calls.stop()
    query = "SELECT next_at <= clock_timestamp() AS is_due FROM provider_calls"
    assert await call_harness.core.rows(call_harness.core.databases.central, query) == [{"is_due": True}]
    assert await call_harness.objects() == set()
