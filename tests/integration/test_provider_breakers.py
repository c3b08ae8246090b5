"""A breaker per provider: open means no call and jobs that wait and say why, half open means exactly one call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from callsheet.jobs.lease.provider_gate import CallReport, ProviderPaused
from callsheet.providers.media import Finish
from tests.support.jobs.core import Core, Member, open_core, report
from tests.support.providers.provider_calls import PROVIDER, CallHarness, open_call_harness
from tests.support.providers.replicate_server import ReplicateServer, Scenario


@pytest.fixture
async def call_harness(
    core: Core, ann: Member, tmp_path: Path, replicate: ReplicateServer
) -> AsyncIterator[CallHarness]:
    options = {"breaker_failures": 2, "breaker_pause_seconds": 30, "breaker_max_pause_seconds": 50}
    async with open_call_harness(core, ann, tmp_path, replicate, **options) as call_harness:
        yield call_harness


async def opened(call_harness: CallHarness) -> None:
    """Two jobs whose calls failed; they wait for their next attempt."""
    for _ in range(2):
        handed = await call_harness.new_call()
        await call_harness.fail(handed)
    assert (await call_harness.breaker())["is_open"]


async def half_opened(call_harness: CallHarness) -> None:
    await opened(call_harness)
    await call_harness.pause_is_over()
    await call_harness.room.breakers.refresh([PROVIDER])


class TestOpening:
    async def test_consecutive_failures_open_the_breaker(self, call_harness: CallHarness) -> None:
        await call_harness.fail(await call_harness.new_call())
        assert (await call_harness.breaker())["open_until"] is None
        await call_harness.fail(await call_harness.new_call())
        breaker = await call_harness.breaker()
        assert (breaker["is_open"], breaker["failures"], breaker["pause_seconds"]) == (True, 2, 30)

    async def test_a_success_resets_the_count_of_failures(self, call_harness: CallHarness) -> None:
        await call_harness.fail(await call_harness.new_call())
        await call_harness.waiting()
        await call_harness.fail(await call_harness.new_call())
        assert (await call_harness.breaker())["open_until"] is None

    async def test_only_an_unavailable_provider_counts_as_a_failure(self, call_harness: CallHarness) -> None:
        for _ in range(3):
            await call_harness.fail(await call_harness.new_call(), "provider_no_credit")
        assert (await call_harness.breaker())["failures"] == 0

    async def test_a_report_that_is_repeated_counts_once(self, call_harness: CallHarness) -> None:
        handed = await call_harness.new_call()
        await call_harness.fail(handed)
        await call_harness.fail(handed)
        assert (await call_harness.breaker())["failures"] == 1

    async def test_the_breaker_does_not_affect_jobs_of_engines(self, call_harness: CallHarness) -> None:
        assert not call_harness.room.gate.concerns("self_hosted")
        criteria = call_harness.core.criteria(providers=("self_hosted", PROVIDER))
        assert call_harness.room.gate.narrowed(criteria) is criteria
        await opened(call_harness)
        assert call_harness.room.gate.narrowed(criteria).providers == ("self_hosted",)


class TestOpen:
    async def test_an_open_breaker_prevents_leases_and_calls(self, call_harness: CallHarness) -> None:
        await opened(call_harness)
        job_id = await call_harness.submit()
        criteria = call_harness.core.criteria(providers=(PROVIDER,))
        assert await call_harness.long_poll.next_job(criteria, "worker-1", 0) is None
        assert await call_harness.core.status(call_harness.ann, job_id) == "queued"
        assert await call_harness.core.steps(call_harness.ann, job_id) == [">pending", "pending>queued"]

    async def test_a_process_that_missed_the_pause_is_refused_its_call(self, call_harness: CallHarness) -> None:
        await opened(call_harness)
        job_id = await call_harness.submit()
        started = await call_harness.lease()
        with pytest.raises(ProviderPaused):
            await call_harness.room.gate.admit(started.lease)
        await call_harness.core.room.starter.return_lease(started)
        assert await call_harness.core.status(call_harness.ann, job_id) == "queued"
        query = "SELECT 1 FROM provider_calls WHERE job_id = $1"
        assert await call_harness.core.rows(call_harness.core.databases.central, query, job_id) == []
        dispatch = await call_harness.core.dispatch(job_id)
        assert dispatch is not None
        assert dispatch["attempts"] == 0

    async def test_the_time_of_the_next_trial_is_known(self, call_harness: CallHarness) -> None:
        await opened(call_harness)
        pause = call_harness.room.gate.pause_of(PROVIDER, call_harness.ann.tenant_id)
        assert pause is not None
        assert pause.until is not None
        assert 0 < (pause.until - datetime.now(UTC)).total_seconds() <= 30

    async def test_waiting_calls_are_neither_polled_nor_canceled_during_a_pause(
        self, call_harness: CallHarness
    ) -> None:
        handed, prediction = await call_harness.waiting()
        other, _ = await call_harness.waiting()
        call_harness.replicate.end(prediction.id, Scenario())
        await opened(call_harness)
        await call_harness.core.room.cancellation.cancel(call_harness.ann.tenant_id, other.job_id, actor="user")
        before = len(call_harness.replicate.calls)
        assert await call_harness.finished(handed) == "processing"
        assert len(call_harness.replicate.calls) == before
        # Callbacks are the provider's own doing: they are taken.
        await call_harness.call_back(handed, prediction.id)
        assert await call_harness.finished(handed) == "completed"

    async def test_calls_from_before_the_pause_change_nothing(self, call_harness: CallHarness) -> None:
        early, late = await call_harness.new_call(), await call_harness.new_call()
        await opened(call_harness)
        await call_harness.fail(early)
        await call_harness.defer(late, "prediction-1")
        breaker = await call_harness.breaker()
        assert (breaker["is_open"], breaker["failures"], breaker["pause_seconds"]) == (True, 2, 30)


class TestHalfOpen:
    async def test_a_half_open_breaker_admits_one_call(self, call_harness: CallHarness) -> None:
        await half_opened(call_harness)
        for _ in range(2):
            await call_harness.submit()
        first = await call_harness.hand_over()
        second = await call_harness.lease()
        with pytest.raises(ProviderPaused):
            await call_harness.room.gate.admit(second.lease)
        # Handed over once more, because the answer was lost on its way, it is the same call.
        assert (await call_harness.hand_over(first.started)).callback.may_exist

    async def test_a_synchronous_provider_is_tried_by_one_lease_too(self, call_harness: CallHarness) -> None:
        """No callback, no intent: the lease of its task alone."""
        waited_for = next(name for name, each in call_harness.registry.media.items() if each.finish is Finish.SYNC)
        criteria = call_harness.core.criteria(providers=(waited_for,))
        started = []
        for number in range(3):
            await call_harness.submit(provider=waited_for)
            started.append(await call_harness.core.start(f"worker-{number}", criteria))
        half_open = """INSERT INTO provider_breakers (provider, failures, open_until, pause_seconds)
                       VALUES ($1, 5, clock_timestamp(), 30)"""
        await call_harness.core.rows(call_harness.core.databases.central, half_open, waited_for)
        assert await call_harness.room.gate.admit(started[0].lease) is None
        for other in started[1:]:
            with pytest.raises(ProviderPaused):
                await call_harness.room.gate.admit(other.lease)
        outcome = await call_harness.core.room.leases.complete(report(started[0]), {"outputs": []})
        assert outcome.settled is not None
        await call_harness.room.gate.record(CallReport("completed", outcome.settled))
        assert await call_harness.room.gate.admit(started[1].lease) is None

    async def test_a_successful_trial_closes_the_breaker(self, call_harness: CallHarness) -> None:
        await half_opened(call_harness)
        await call_harness.submit()
        await call_harness.defer(await call_harness.hand_over(), "prediction-1")
        breaker = await call_harness.breaker()
        assert (breaker["open_until"], breaker["failures"]) == (None, 0)
        assert call_harness.room.gate.pause_of(PROVIDER, call_harness.ann.tenant_id) is None

    async def test_a_failed_trial_opens_the_breaker_for_twice_as_long_up_to_a_limit(
        self, call_harness: CallHarness
    ) -> None:
        await half_opened(call_harness)
        for seconds in (50, 50):
            await call_harness.submit()
            await call_harness.fail(await call_harness.hand_over())
            breaker = await call_harness.breaker()
            assert (breaker["is_open"], breaker["pause_seconds"]) == (True, seconds)
            await call_harness.pause_is_over()

    async def test_after_the_death_of_a_worker_the_next_call_is_the_trial(self, call_harness: CallHarness) -> None:
        await half_opened(call_harness)
        await call_harness.submit()
        tried = await call_harness.hand_over()
        await call_harness.core.expire_lease(tried.started.lease.dispatch_id)
        await call_harness.core.reap()
        assert await call_harness.hand_over()

    async def test_after_another_kind_of_failure_the_next_call_is_the_trial(self, call_harness: CallHarness) -> None:
        await half_opened(call_harness)
        await call_harness.submit()
        await call_harness.submit()
        await call_harness.fail(await call_harness.hand_over(), "worker_error")
        assert (await call_harness.breaker())["open_until"] is not None
        assert await call_harness.hand_over()

    async def test_polling_a_waiting_call_is_the_trial_if_no_job_is_queued(self, call_harness: CallHarness) -> None:
        handed, prediction = await call_harness.waiting()
        call_harness.replicate.end(prediction.id, Scenario())
        await half_opened(call_harness)
        assert await call_harness.finished(handed) == "completed"
        assert (await call_harness.breaker())["open_until"] is None

    async def test_two_control_planes_admit_one_trial_call(
        self, call_harness: CallHarness, tmp_path: Path, replicate: ReplicateServer
    ) -> None:
        other_core = open_core(call_harness.core.databases)
        other_core.workflow = call_harness.core.workflow
        await half_opened(call_harness)
        async with open_call_harness(other_core, call_harness.ann, tmp_path, replicate) as other:
            for _ in range(5):
                for _ in range(2):
                    await call_harness.submit(cost=0)
                leases = [await call_harness.lease(), await call_harness.lease()]
                outcomes = await asyncio.gather(
                    call_harness.room.gate.admit(leases[0].lease),
                    other.room.gate.admit(leases[1].lease),
                    return_exceptions=True,
                )
                assert sorted(type(outcome).__name__ for outcome in outcomes) == ["CallbackAddress", "ProviderPaused"]
                for lease in leases:
                    await call_harness.core.room.leases.complete(report(lease), {})


class TestKnowing:
    async def test_waiting_workers_are_woken_when_the_provider_may_be_tried_again(
        self, call_harness: CallHarness
    ) -> None:
        await opened(call_harness)
        job_id = await call_harness.submit()
        criteria = call_harness.core.criteria(providers=(PROVIDER,))
        poll = asyncio.create_task(call_harness.long_poll.next_job(criteria, "worker-1", 30))
        while not len(call_harness.core.room.dispatch.waiters):
            await asyncio.sleep(0)
        await call_harness.pause_is_over()
        await call_harness.room.watch.tick(datetime.now(UTC))
        started = await poll
        assert started is not None
        assert started.lease.job_id == job_id

    async def test_waiting_workers_are_woken_once_per_trial(self, call_harness: CallHarness) -> None:
        announced: list[str] = []
        call_harness.room.breakers._is_back = announced.append
        await opened(call_harness)
        await call_harness.pause_is_over()
        for _ in range(3):
            await call_harness.room.watch.tick(datetime.now(UTC))
        assert announced == [PROVIDER]

    async def test_other_processes_are_notified_of_the_pause(self, call_harness: CallHarness, tmp_path: Path) -> None:
        await opened(call_harness)
        assert ("providers", PROVIDER) in call_harness.core.notifications
        async with open_call_harness(
            open_core(call_harness.core.databases), call_harness.ann, tmp_path, call_harness.replicate
        ) as other:
            assert other.room.gate.pause_of(PROVIDER, other.ann.tenant_id) is None
            await other.room.watch.tick(datetime.now(UTC))
            assert other.room.gate.pause_of(PROVIDER, other.ann.tenant_id) is not None
