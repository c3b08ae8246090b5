"""A breaker per provider: open means no call and jobs that wait and say why, half open means exactly one call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from callsheet.jobs.provider_gate import CallReport, ProviderPaused
from callsheet.providers.media import Finish
from tests.support.calls import PROVIDER, Booth, open_booth
from tests.support.core import Core, Member, open_core, report
from tests.support.replicate_server import ReplicateServer, Scenario


@pytest.fixture
async def booth(core: Core, ann: Member, tmp_path: Path, replicate: ReplicateServer) -> AsyncIterator[Booth]:
    options = {"breaker_failures": 2, "breaker_pause_seconds": 30, "breaker_longest_pause_seconds": 50}
    async with open_booth(core, ann, tmp_path, replicate, **options) as booth:
        yield booth


async def opened(booth: Booth) -> None:
    """Two jobs whose calls failed; they wait for their next attempt."""
    for _ in range(2):
        handed = await booth.new_call()
        await booth.fail(handed)
    assert (await booth.breaker())["is_open"]


async def half_opened(booth: Booth) -> None:
    await opened(booth)
    await booth.pause_is_over()
    await booth.room.breakers.refresh([PROVIDER])


class TestOpening:
    async def test_so_many_failures_in_a_row_open_it(self, booth: Booth) -> None:
        await booth.fail(await booth.new_call())
        assert (await booth.breaker())["open_until"] is None
        await booth.fail(await booth.new_call())
        breaker = await booth.breaker()
        assert (breaker["is_open"], breaker["failures"], breaker["pause_seconds"]) == (True, 2, 30)

    async def test_a_success_in_between_counts_anew(self, booth: Booth) -> None:
        await booth.fail(await booth.new_call())
        await booth.waiting()
        await booth.fail(await booth.new_call())
        assert (await booth.breaker())["open_until"] is None

    async def test_only_a_provider_that_does_not_answer_counts(self, booth: Booth) -> None:
        for _ in range(3):
            await booth.fail(await booth.new_call(), "provider_no_credit")
        assert (await booth.breaker())["failures"] == 0

    async def test_a_report_that_is_repeated_counts_once(self, booth: Booth) -> None:
        handed = await booth.new_call()
        await booth.fail(handed)
        await booth.fail(handed)
        assert (await booth.breaker())["failures"] == 1

    async def test_jobs_of_engines_are_none_of_its_business(self, booth: Booth) -> None:
        assert not booth.room.gate.concerns("self_hosted")
        criteria = booth.core.criteria(providers=("self_hosted", PROVIDER))
        assert booth.room.gate.narrowed(criteria) is criteria
        await opened(booth)
        assert booth.room.gate.narrowed(criteria).providers == ("self_hosted",)


class TestOpen:
    async def test_nothing_is_leased_and_nobody_calls(self, booth: Booth) -> None:
        await opened(booth)
        job_id = await booth.submit()
        criteria = booth.core.criteria(providers=(PROVIDER,))
        assert await booth.long_poll.next_job(criteria, "worker-1", 0) is None
        assert await booth.core.status(booth.ann, job_id) == "queued"
        assert await booth.core.steps(booth.ann, job_id) == [">pending", "pending>queued"]

    async def test_a_lease_of_a_process_that_did_not_know_is_refused_its_call(self, booth: Booth) -> None:
        await opened(booth)
        job_id = await booth.submit()
        started = await booth.lease()
        with pytest.raises(ProviderPaused):
            await booth.room.gate.admit(started.lease)
        await booth.core.room.starter.return_lease(started)
        assert await booth.core.status(booth.ann, job_id) == "queued"
        query = "SELECT 1 FROM provider_calls WHERE job_id = $1"
        assert await booth.core.rows(booth.core.databases.central, query, job_id) == []
        dispatch = await booth.core.dispatch(job_id)
        assert dispatch is not None
        assert dispatch["attempts"] == 0

    async def test_it_is_known_when_it_is_tried_again(self, booth: Booth) -> None:
        await opened(booth)
        pause = booth.room.gate.pause_of(PROVIDER, booth.ann.tenant_id)
        assert pause is not None
        assert pause.until is not None
        assert 0 < (pause.until - datetime.now(UTC)).total_seconds() <= 30

    async def test_waiting_calls_are_not_asked_about_and_none_is_canceled(self, booth: Booth) -> None:
        handed, prediction = await booth.waiting()
        other, _ = await booth.waiting()
        booth.replicate.end(prediction.id, Scenario())
        await opened(booth)
        await booth.core.room.cancellation.cancel(booth.ann.tenant_id, other.job_id, actor="user")
        before = len(booth.replicate.calls)
        assert await booth.finished(handed) == "processing"
        assert len(booth.replicate.calls) == before
        # Callbacks are the provider's own doing: they are taken.
        await booth.call_back(handed, prediction.id)
        assert await booth.finished(handed) == "completed"

    async def test_what_began_before_changes_nothing(self, booth: Booth) -> None:
        early, late = await booth.new_call(), await booth.new_call()
        await opened(booth)
        await booth.fail(early)
        await booth.defer(late, "prediction-1")
        breaker = await booth.breaker()
        assert (breaker["is_open"], breaker["failures"], breaker["pause_seconds"]) == (True, 2, 30)


class TestHalfOpen:
    async def test_one_call_is_let_through_and_no_other(self, booth: Booth) -> None:
        await half_opened(booth)
        for _ in range(2):
            await booth.submit()
        first = await booth.hand_over()
        second = await booth.lease()
        with pytest.raises(ProviderPaused):
            await booth.room.gate.admit(second.lease)
        # Handed over once more, because the answer was lost on its way, it is the same call.
        assert (await booth.hand_over(first.started)).callback.may_exist

    async def test_one_that_is_waited_for_is_tried_by_one_lease_too(self, booth: Booth) -> None:
        """No callback, no intent: the lease of its task alone."""
        waited_for = next(name for name, each in booth.registry.media.items() if each.finish is Finish.SYNC)
        criteria = booth.core.criteria(providers=(waited_for,))
        started = []
        for number in range(3):
            await booth.submit(provider=waited_for)
            started.append(await booth.core.start(f"worker-{number}", criteria))
        half_open = """INSERT INTO provider_breakers (provider, failures, open_until, pause_seconds)
                       VALUES ($1, 5, clock_timestamp(), 30)"""
        await booth.core.rows(booth.core.databases.central, half_open, waited_for)
        assert await booth.room.gate.admit(started[0].lease) is None
        for other in started[1:]:
            with pytest.raises(ProviderPaused):
                await booth.room.gate.admit(other.lease)
        outcome = await booth.core.room.lease_reports.complete(report(started[0]), {"outputs": []})
        assert outcome.settled is not None
        await booth.room.gate.record(CallReport("completed", outcome.settled))
        assert await booth.room.gate.admit(started[1].lease) is None

    async def test_its_success_closes_it(self, booth: Booth) -> None:
        await half_opened(booth)
        await booth.submit()
        await booth.defer(await booth.hand_over(), "prediction-1")
        breaker = await booth.breaker()
        assert (breaker["open_until"], breaker["failures"]) == (None, 0)
        assert booth.room.gate.pause_of(PROVIDER, booth.ann.tenant_id) is None

    async def test_its_failure_opens_it_for_twice_as_long_up_to_a_limit(self, booth: Booth) -> None:
        await half_opened(booth)
        for seconds in (50, 50):
            await booth.submit()
            await booth.fail(await booth.hand_over())
            breaker = await booth.breaker()
            assert (breaker["is_open"], breaker["pause_seconds"]) == (True, seconds)
            await booth.pause_is_over()

    async def test_a_call_whose_worker_died_leaves_the_place_to_the_next(self, booth: Booth) -> None:
        await half_opened(booth)
        await booth.submit()
        tried = await booth.hand_over()
        await booth.core.expire_lease(tried.started.lease.dispatch_id)
        await booth.core.reap()
        assert await booth.hand_over()

    async def test_a_call_that_failed_otherwise_leaves_the_place_to_the_next(self, booth: Booth) -> None:
        await half_opened(booth)
        await booth.submit()
        await booth.submit()
        await booth.fail(await booth.hand_over(), "worker_error")
        assert (await booth.breaker())["open_until"] is not None
        assert await booth.hand_over()

    async def test_with_no_job_in_the_queue_a_waiting_call_tries_it(self, booth: Booth) -> None:
        handed, prediction = await booth.waiting()
        booth.replicate.end(prediction.id, Scenario())
        await half_opened(booth)
        assert await booth.finished(handed) == "completed"
        assert (await booth.breaker())["open_until"] is None

    async def test_two_control_planes_racing_let_one_call_through(
        self, booth: Booth, tmp_path: Path, replicate: ReplicateServer
    ) -> None:
        other_core = open_core(booth.core.databases)
        other_core.workflow = booth.core.workflow
        await half_opened(booth)
        async with open_booth(other_core, booth.ann, tmp_path, replicate) as other:
            for _ in range(5):
                for _ in range(2):
                    await booth.submit(cost=0)
                leases = [await booth.lease(), await booth.lease()]
                outcomes = await asyncio.gather(
                    booth.room.gate.admit(leases[0].lease),
                    other.room.gate.admit(leases[1].lease),
                    return_exceptions=True,
                )
                assert sorted(type(outcome).__name__ for outcome in outcomes) == ["CallbackAddress", "ProviderPaused"]
                for lease in leases:
                    await booth.core.room.lease_reports.complete(report(lease), {})


class TestKnowing:
    async def test_waiting_workers_are_told_when_it_may_be_tried_again(self, booth: Booth) -> None:
        await opened(booth)
        job_id = await booth.submit()
        criteria = booth.core.criteria(providers=(PROVIDER,))
        poll = asyncio.create_task(booth.long_poll.next_job(criteria, "worker-1", 30))
        while not len(booth.core.room.waiters):
            await asyncio.sleep(0)
        await booth.pause_is_over()
        await booth.room.watch.tick(datetime.now(UTC))
        started = await poll
        assert started is not None
        assert started.lease.job_id == job_id

    async def test_they_are_told_once_while_nobody_tries(self, booth: Booth) -> None:
        told: list[str] = []
        booth.room.breakers._is_back = told.append
        await opened(booth)
        await booth.pause_is_over()
        for _ in range(3):
            await booth.room.watch.tick(datetime.now(UTC))
        assert told == [PROVIDER]

    async def test_other_processes_hear_of_it(self, booth: Booth, tmp_path: Path) -> None:
        await opened(booth)
        assert ("providers", PROVIDER) in booth.core.notifications
        async with open_booth(open_core(booth.core.databases), booth.ann, tmp_path, booth.replicate) as other:
            assert other.room.gate.pause_of(PROVIDER, other.ann.tenant_id) is None
            await other.room.watch.tick(datetime.now(UTC))
            assert other.room.gate.pause_of(PROVIDER, other.ann.tenant_id) is not None
