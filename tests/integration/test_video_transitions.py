"""A job's video and its outputs change with the job, in the job's own transaction, and never on their own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from callsheet.jobs.lease.outcomes import ReportOutcome
from callsheet.toolbox.ids import uuid7
from callsheet.wire.errors import InsufficientTokens, InUse, InvalidRequest, NotFound
from callsheet.wire.job_errors import UNKNOWN
from callsheet.wire.worker.errors import LeaseLost
from tests.support.jobs.core import Core, Member, output_of, report


@pytest.fixture(params=["pool_1", "pool_2"])
async def ann(core: Core, request: pytest.FixtureRequest) -> Member:
    return await core.member(request.param, tokens=100)


async def test_a_video_follows_its_job_from_submit_to_completion(core: Core, ann: Member) -> None:
    effect_id = uuid7()
    job, video_id = await core.submit_video(ann, effect_id=effect_id)
    video = await core.video_row(ann, video_id)
    assert (video["status"], video["job_id"], video["effect_id"]) == ("queued", job.id, effect_id)
    started = await core.start()
    assert started.effect_id == effect_id
    assert (await core.video_row(ann, video_id))["status"] == "processing"
    await core.room.leases.requeue(report(started), "spot notice")
    assert (await core.video_row(ann, video_id))["status"] == "queued"
    started = await core.start()
    outputs = [output_of(started, "one.mp4"), output_of(started, "two.png")]
    outcome = await core.room.leases.complete(report(started), {"outputs": []}, outputs=outputs)
    assert outcome.settled is not None
    assert outcome.settled.effect_id == effect_id
    assert outcome.settled.duration_seconds is not None
    video = await core.video_row(ann, video_id)
    assert (video["status"], video["processed_file_id"]) == ("completed", outputs[0].file_id)
    files = await core.rows(ann.pool, "SELECT * FROM files WHERE job_id = $1 ORDER BY name", job.id)
    assert [(row["name"], row["status"], row["user_id"]) for row in files] == [
        ("one.mp4", "ready", ann.user_id),
        ("two.png", "ready", ann.user_id),
    ]
    # The first lease may have uploaded something.
    assert len(await core.rows(ann.pool, "SELECT * FROM output_sweeps WHERE job_id = $1", job.id)) == 1
    await core.check()


async def test_a_failure_is_shown_by_the_video_and_a_retry_clears_it(core: Core, ann: Member) -> None:
    job, video_id = await core.submit_video(ann)
    await core.fail(await core.start())
    video = await core.video_row(ann, video_id)
    assert (video["status"], video["processing_details"]) == ("failed", {"error": UNKNOWN})
    await core.room.retries.retry(ann.tenant_id, job.id, actor="user")
    video = await core.video_row(ann, video_id)
    assert (video["status"], video["processing_details"]) == ("queued", None)
    await core.room.cancellation.cancel(ann.tenant_id, job.id, actor="user")
    assert (await core.video_row(ann, video_id))["status"] == "canceled"
    await core.check()


@pytest.mark.parametrize("end", ["fail", "cancel", "expire"])
async def test_a_video_keeps_its_last_result_when_a_later_job_does_not_complete(
    core: Core, ann: Member, end: str
) -> None:
    _, video_id = await core.submit_video(ann)
    started = await core.start()
    outputs = [output_of(started)]
    await core.room.leases.complete(report(started), {"outputs": []}, outputs=outputs)
    first = await core.video_row(ann, video_id)
    later = await core.submit(ann, video_id=video_id, input_file_ids=(first["original_file_id"],))
    assert (await core.video_row(ann, video_id))["processed_file_id"] == outputs[0].file_id
    started = await core.start()
    if end == "fail":
        await core.fail(started)
    elif end == "cancel":
        await core.room.cancellation.cancel(ann.tenant_id, later.id, actor="user")
    else:
        await core.enforce_deadlines(datetime.now(UTC) + timedelta(days=30))
    video = await core.video_row(ann, video_id)
    ended = {"fail": "failed", "cancel": "canceled", "expire": "expired"}[end]
    assert (video["status"], video["job_id"]) == (ended, later.id)
    assert video["processed_file_id"] == outputs[0].file_id
    await core.check()
    # A retry of the later job replaces the result only when it completes.
    if end == "fail":
        await core.room.retries.retry(ann.tenant_id, later.id, actor="user")
        assert (await core.video_row(ann, video_id))["processed_file_id"] == outputs[0].file_id
        started = await core.start()
        newer = [output_of(started)]
        await core.room.leases.complete(report(started), {"outputs": []}, outputs=newer)
        assert (await core.video_row(ann, video_id))["processed_file_id"] == newer[0].file_id
        await core.check()


async def test_a_repeated_completion_stores_its_files_once(core: Core, ann: Member) -> None:
    job, _ = await core.submit_video(ann)
    started = await core.start()
    first = await core.complete(started)
    again = await core.complete(started)
    assert (first.status, again) == ("completed", ReportOutcome(job.id, "completed"))
    assert again.settled is None
    assert len(await core.rows(ann.pool, "SELECT * FROM files WHERE job_id = $1", job.id)) == 1
    await core.check()


async def test_a_video_with_an_active_job_accepts_no_other_job(core: Core, ann: Member) -> None:
    video_id, file_id = await core.video(ann)
    await core.submit(ann, video_id=video_id, input_file_ids=(file_id,))
    with pytest.raises(InUse):
        await core.submit(ann, video_id=video_id, input_file_ids=(file_id,))
    await core.complete(await core.start())
    again = await core.submit(ann, video_id=video_id, input_file_ids=(file_id,))
    video = await core.video_row(ann, video_id)
    assert (video["status"], video["job_id"]) == ("queued", again.id)
    assert await core.balance(ann) == 80
    await core.check()


async def test_a_missing_file_reserves_no_tokens(core: Core, ann: Member) -> None:
    bob = await core.member(tenant=ann)
    _, of_bob = await core.video(bob)
    _, deleted = await core.video(ann)
    await core.rows(ann.pool, "UPDATE files SET deleted_at = now() WHERE id = $1", deleted)
    for file_id in (of_bob, deleted, uuid7()):
        with pytest.raises(InvalidRequest, match="input_file_id"):
            await core.submit(ann, input_file_ids=(file_id,))
    with pytest.raises(NotFound):
        await core.submit(ann, video_id=uuid7())
    assert await core.balance(ann) == 100


async def test_a_retry_without_its_input_is_refused_and_reserves_nothing(core: Core, ann: Member) -> None:
    job, _ = await core.submit_video(ann, cost=60)
    await core.fail(await core.start())
    await core.rows(ann.pool, "UPDATE files SET deleted_at = now() WHERE purpose = 'upload'")
    with pytest.raises(InvalidRequest, match="deleted"):
        await core.room.retries.retry(ann.tenant_id, job.id, actor="user")
    assert (await core.status(ann, job.id), await core.balance(ann)) == ("failed", 100)
    await core.check()


async def test_an_older_job_of_a_video_does_not_touch_it_any_more(core: Core, ann: Member) -> None:
    job, video_id = await core.submit_video(ann)
    await core.fail(await core.start())
    file_id = (await core.video_row(ann, video_id))["original_file_id"]
    newer = await core.submit(ann, video_id=video_id, input_file_ids=(file_id,))
    await core.room.retries.retry(ann.tenant_id, job.id, actor="user")
    video = await core.video_row(ann, video_id)
    assert (video["job_id"], video["status"]) == (newer.id, "queued")
    await core.check()


async def test_a_lease_can_be_returned_to_its_worker_again_while_it_is_held(core: Core, ann: Member) -> None:
    job, _ = await core.submit_video(ann, payload={"prompt": "a dog"})
    started = await core.room.starter.lease_and_start(core.criteria(), "worker-1", "poll-1")
    assert started is not None
    row = await core.dispatch(job.id)
    assert row is not None
    assert row["poll_id"] == "poll-1"
    again = await core.room.starter.repeat(started.lease.dispatch_id, started.lease.lease_token, "worker-1")
    assert again == started
    with pytest.raises(NotFound):
        await core.room.starter.repeat(started.lease.dispatch_id, started.lease.lease_token, "worker-2")
    await core.complete(started)
    assert await core.room.starter.repeat(started.lease.dispatch_id, started.lease.lease_token, "worker-1") is None


async def test_a_lease_whose_start_was_cut_off_is_started_when_it_is_asked_for_again(core: Core, ann: Member) -> None:
    job, _ = await core.submit_video(ann)
    lease = await core.queue.lease(core.criteria(), "worker-1", "poll-1")
    assert lease is not None
    assert await core.status(ann, job.id) == "queued"
    again = await core.room.starter.repeat(lease.dispatch_id, lease.lease_token, "worker-1")
    assert again is not None
    assert await core.status(ann, job.id) == "processing"
    await core.complete(again)
    await core.check()


async def test_a_worker_that_deregisters_returns_its_jobs_with_their_attempts(core: Core, ann: Member) -> None:
    jobs = [await core.submit(ann) for _ in range(2)]
    other = await core.submit(ann, priority=-1)
    for _ in jobs:
        await core.start("leaving")
    await core.start("staying")
    outcomes = await core.room.leases.requeue_held_by(
        "leaving", attempt_counts=False, reason="shutdown", actor="worker:leaving"
    )
    assert [outcome.status for _, outcome in outcomes] == ["queued", "queued"]
    for job in jobs:
        row = await core.dispatch(job.id)
        assert row is not None
        assert (row["status"], row["attempts"], row["poll_id"]) == ("queued", 0, None)
        assert await core.status(ann, job.id) == "queued"
    assert await core.status(ann, other.id) == "processing"
    await core.check()


async def test_leases_taken_from_a_worker_cost_their_attempt_and_the_last_one_fails_the_job(
    core: Core, ann: Member
) -> None:
    once, twice = await core.submit(ann, max_attempts=1), await core.submit(ann, max_attempts=2)
    stale = await core.start("gone")
    await core.start("gone")
    await core.room.leases.requeue_held_by("gone", attempt_counts=True, reason="not seen", actor="stale workers")
    assert (await core.status(ann, once.id), await core.status(ann, twice.id)) == ("failed", "queued")
    assert await core.ledger(ann, once.id) == [(1, "JOB_RESERVE", -10), (1, "JOB_REFUND", 10)]
    [event] = [event for event in await core.events(ann, once.id) if event["to_status"] == "failed"]
    assert event["actor"] == "stale workers"
    row = await core.dispatch(twice.id)
    assert row is not None
    assert (row["status"], row["attempts"]) == ("queued", 1)
    assert (await core.complete(stale)).status == "failed"
    await core.check()


async def test_a_lease_whose_response_failed_is_returned_with_its_attempt(core: Core, ann: Member) -> None:
    job = await core.submit(ann)
    started = await core.start()
    await core.room.starter.return_lease(started)
    row = await core.dispatch(job.id)
    assert row is not None
    assert (row["status"], row["attempts"]) == ("queued", 0)
    assert await core.status(ann, job.id) == "queued"
    await core.start("worker-2")
    with pytest.raises(LeaseLost):
        await core.room.starter.return_lease(started)
    await core.check()


async def test_a_cap_or_a_price_is_refused_before_the_video_is_touched(core: Core, ann: Member) -> None:
    video_id, file_id = await core.video(ann)
    with pytest.raises(InsufficientTokens):
        await core.submit(ann, video_id=video_id, input_file_ids=(file_id,), cost=101)
    assert (await core.video_row(ann, video_id))["status"] == "uploaded"
