"""A crash in each gap of a call that calls back: the next start brings the job to its end, paid and made once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from callsheet.plumbing.failpoints import Failpoint
from tests.support.calls import HELD, Booth, open_booth
from tests.support.core import Core, Member, open_core
from tests.support.crashes import crashed_at
from tests.support.media_harness import open_media_harness
from tests.support.replicate_server import ReplicateServer, Scenario

PICTURE = Scenario()


@pytest.fixture
async def booth(core: Core, ann: Member, tmp_path: Path, replicate: ReplicateServer) -> AsyncIterator[Booth]:
    async with open_booth(core, ann, tmp_path, replicate) as booth:
        yield booth


async def handed_over_but_nobody_was_told(booth: Booth) -> bool:
    await booth.submit()
    return await crashed_at(Failpoint.WEBHOOK_INTENT_BEFORE_ANSWER, booth.hand_over())


async def submitted_but_not_deferred(booth: Booth) -> bool:
    await booth.call(await booth.new_call())
    return True


async def deferred_but_the_call_does_not_know(booth: Booth) -> bool:
    handed = await booth.new_call()
    prediction = await booth.call(handed)
    return await crashed_at(Failpoint.WEBHOOK_DEFER_BEFORE_CALL, booth.defer(handed, prediction.id))


async def called_back_but_not_answered(booth: Booth) -> bool:
    handed, prediction = await booth.waiting()
    crashed = await crashed_at(
        Failpoint.WEBHOOK_CALLBACK_BEFORE_ANSWER, booth.call_back(handed, prediction.id, PICTURE)
    )
    # The provider got no response, so it sends the callback again.
    await booth.call_back(handed, prediction.id)
    return crashed


async def asked_but_the_answer_is_not_kept(booth: Booth) -> bool:
    _, prediction = await booth.waiting()
    booth.replicate.end(prediction.id, PICTURE)
    await booth.hurry()
    return await crashed_at(Failpoint.WEBHOOK_LOOK_BEFORE_RECORD, booth.work())


async def fetched_but_not_completed(booth: Booth) -> bool:
    handed, prediction = await booth.waiting()
    await booth.call_back(handed, prediction.id, PICTURE)
    crashed = await crashed_at(Failpoint.WEBHOOK_COLLECT_BEFORE_COMPLETE, booth.work())
    # Nothing is paid for, and nothing is anybody's file yet.
    assert len(await booth.core.ledger(booth.ann, handed.job_id)) == 1
    assert await booth.files(handed.job_id) == []
    assert len(await booth.objects()) == 1
    return crashed


async def completed_but_the_dispatch_is_open(booth: Booth) -> bool:
    handed, prediction = await booth.waiting()
    await booth.call_back(handed, prediction.id, PICTURE)
    return await crashed_at(Failpoint.COMPLETE_BEFORE_CLOSE, booth.work())


async def completed_but_the_call_is_open(booth: Booth) -> bool:
    handed, prediction = await booth.waiting()
    await booth.call_back(handed, prediction.id, PICTURE)
    return await crashed_at(Failpoint.WEBHOOK_COMPLETE_BEFORE_END, booth.work())


SCENES: tuple[Callable[[Booth], Awaitable[bool]], ...] = (
    handed_over_but_nobody_was_told,
    submitted_but_not_deferred,
    deferred_but_the_call_does_not_know,
    called_back_but_not_answered,
    asked_but_the_answer_is_not_kept,
    fetched_but_not_completed,
    completed_but_the_dispatch_is_open,
    completed_but_the_call_is_open,
)


async def brought_home(booth: Booth) -> None:
    """What the loops and a worker do with what a crash left behind, in fast motion."""
    for _ in range(4):
        for row in await booth.core.rows(booth.core.databases.central, "SELECT * FROM ai_job_dispatches"):
            if row["status"] == "leased":
                await booth.core.expire_lease(row["dispatch_id"])
        await booth.core.reap()
        started = await booth.core.lease(criteria=booth.core.criteria(providers=("replicate",)))
        if started is not None:
            handed = await booth.hand_over(started)
            await booth.defer(handed, (await booth.call(handed)).id)
        for prediction in booth.replicate.predictions.values():
            if prediction["status"] in ("starting", "processing"):
                booth.replicate.end(prediction["id"], PICTURE)
        await booth.hurry()
        await booth.work()


@pytest.mark.few_forms
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
async def test_a_crash_anywhere_leaves_one_prediction_one_result_and_one_charge(
    booth: Booth, scene: Callable[[Booth], Awaitable[bool]], tmp_path: Path, replicate: ReplicateServer
) -> None:
    replicate.scenario, replicate.deliver = HELD, "never"
    assert await scene(booth)
    await booth.core.check()
    next_life = open_core(booth.core.databases)
    next_life.workflow = booth.core.workflow
    async with open_booth(next_life, booth.ann, tmp_path, replicate) as again:
        await brought_home(again)
        [job] = await next_life.rows(booth.ann.pool, "SELECT id, status FROM ai_jobs")
        assert job["status"] == "completed"
        assert await again.consumed(job["id"])
        assert len(replicate.submitted) == 1
        [file] = await again.files(job["id"])
        [call] = await next_life.rows(next_life.databases.central, "SELECT * FROM provider_calls")
        assert call["work"] is None
        await next_life.check_drained()
        # What a collector that died had fetched goes with the sweeper of outputs; what the user has stays.
        async with open_media_harness(next_life, booth.ann, tmp_path) as media:
            await media.sweep()
        assert await again.objects() == {file["path"]}


async def test_a_cancel_that_crashed_is_sent_again_and_ends(booth: Booth) -> None:
    handed, prediction = await booth.waiting()
    await booth.core.room.cancellation.cancel(booth.ann.tenant_id, handed.job_id, actor="user")
    assert await crashed_at(Failpoint.WEBHOOK_CANCEL_BEFORE_END, booth.work())
    assert booth.replicate.predictions[prediction.id]["status"] == "canceled"
    assert (await booth.row(handed))["work"] == "cancel"
    assert await booth.finished(handed) == "canceled"
    assert (await booth.row(handed))["work"] is None
    await booth.core.check_drained()


async def test_a_control_plane_that_stops_hands_its_work_to_the_next_at_once(booth: Booth) -> None:
    handed, prediction = await booth.waiting()
    await booth.call_back(handed, prediction.id, Scenario(output="{files}/slow.png"))
    await booth.room.calls.tick(datetime.now(UTC))
    await booth.room.calls.stop()
    query = "SELECT next_at <= clock_timestamp() AS is_due FROM provider_calls"
    assert await booth.core.rows(booth.core.databases.central, query) == [{"is_due": True}]
    assert await booth.objects() == set()
