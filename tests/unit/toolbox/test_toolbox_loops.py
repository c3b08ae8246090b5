import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from callsheet.toolbox.clock import ManualClock
from callsheet.toolbox.loops import Loop, LoopGroup
from tests.support.waiting import PATIENCE_SECONDS

Tick = Callable[["Sweeper"], Awaitable[object]]


class Sweeper(Loop):
    """Does what the test says; by default it ticks once and then waits for an hour."""

    name = "sweeper"
    interval_seconds = 3600.0
    retry_base_seconds = 0.001
    retry_cap_seconds = 0.002

    def __init__(self, tick: Tick | None = None, grace_seconds: float = 10.0) -> None:
        self.clock = ManualClock()
        super().__init__(clock=self.clock, grace_seconds=grace_seconds)
        self.seen: list[datetime] = []
        self._do = tick
        self._changed = asyncio.Condition()

    async def tick(self, now: datetime) -> object:
        self.seen.append(now)
        async with self._changed:
            self._changed.notify_all()
        return await self._do(self) if self._do else None

    async def ticked(self, times: int) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS), self._changed:
            await self._changed.wait_for(lambda: len(self.seen) >= times)


async def ended() -> None:
    tasks = [task for task in asyncio.all_tasks() if task.get_name() == "loop:sweeper"]
    if tasks:
        await asyncio.wait(tasks, timeout=PATIENCE_SECONDS)


def events(logged: Sequence[Mapping[str, Any]]) -> list[str]:
    """What loops said: control planes that other tests of this process share go on saying other things."""
    return [line["event"] for line in logged if line["event"].startswith("loop.")]


async def test_a_loop_ticks_at_once_with_the_time_of_its_clock() -> None:
    loop = Sweeper()
    loop.start()
    await loop.ticked(1)
    assert loop.running
    await loop.stop()
    assert loop.seen == [loop.clock.now()]
    assert (loop.ticks, loop.failures, loop.last_success) == (1, 0, 0.0)
    assert not loop.running


async def test_a_wake_ticks_without_waiting_for_the_interval() -> None:
    loop = Sweeper()
    loop.start()
    for times in range(1, 4):
        await loop.ticked(times)
        loop.wake()
    await loop.ticked(4)
    await loop.stop()


async def test_a_wake_during_a_tick_is_not_lost() -> None:
    async def wake_during_the_first(loop: Sweeper) -> None:
        if len(loop.seen) == 1:
            loop.wake()

    loop = Sweeper(wake_during_the_first)
    loop.start()
    await loop.ticked(2)
    await loop.stop()
    assert loop.ticks == 2


async def test_the_interval_passes_between_ticks() -> None:
    loop = Sweeper()
    loop.interval_seconds = 0.001
    loop.start()
    await loop.ticked(3)
    await loop.stop()
    assert loop.failures == 0


async def test_more_work_ticks_again_at_once_and_starves_no_other_task() -> None:
    async def always_more(_: Sweeper) -> bool:
        return True

    loop = Sweeper(always_more)
    loop.start()
    await loop.ticked(100)
    await loop.stop()
    assert loop.ticks >= 100


@pytest.mark.parametrize(("seconds", "alarming"), [(1, 0), (61, 2)])
async def test_failures_of_a_short_outage_are_not_alarming(seconds: float, alarming: int) -> None:
    async def fail(loop: Sweeper) -> None:
        raise LookupError("the database is gone")

    loop = Sweeper(fail)
    loop.retry_base_seconds = 0
    loop.start(lambda error: isinstance(error, LookupError))
    await loop.ticked(2)
    await loop.stop()
    loop.clock.advance(seconds)
    assert (loop.failures_in_a_row >= 2, min(loop.alarming_failures, 2)) == (True, alarming)


async def test_a_raising_tick_is_logged_and_tried_again() -> None:
    async def fail_twice(loop: Sweeper) -> None:
        loop.clock.advance(1)
        if len(loop.seen) <= 2:
            raise LookupError("the database is gone")

    loop = Sweeper(fail_twice)
    with capture_logs() as logged:
        loop.start()
        await loop.ticked(3)
        await loop.stop()
    assert (loop.ticks, loop.failures, loop.failures_in_a_row, loop.last_success) == (3, 2, 0, 3.0)
    # A control plane of another test in this process may log meanwhile.
    failed = [line for line in logged if line["event"] == "loop.tick_failed"]
    assert [line["failures_in_a_row"] for line in failed] == [1, 2]
    assert isinstance(failed[0]["exc_info"], LookupError)


async def test_wakes_do_not_shorten_the_wait_after_a_failure_but_stop_does() -> None:
    async def fail(_: Sweeper) -> None:
        raise LookupError

    loop = Sweeper(fail)
    # Full jitter may draw any wait up to this; a draw short enough to matter has a chance of one in millions.
    loop.retry_base_seconds = loop.retry_cap_seconds = 1e9
    with capture_logs():
        loop.start()
        await loop.ticked(1)
        for _ in range(10):
            loop.wake()
            await asyncio.sleep(0)
        assert len(loop.seen) == 1
        async with asyncio.timeout(PATIENCE_SECONDS):
            await loop.stop()
    assert loop.failures == 1


async def test_a_cancelled_task_inside_a_tick_does_not_end_the_loop() -> None:
    async def await_something_cancelled(loop: Sweeper) -> None:
        if len(loop.seen) == 1:
            task = asyncio.create_task(asyncio.sleep(3600))
            task.cancel()
            await task

    loop = Sweeper(await_something_cancelled)
    with capture_logs() as logged:
        loop.start()
        await loop.ticked(2)
        await loop.stop()
    assert loop.failures == 1
    assert events(logged) == ["loop.tick_failed"]


async def test_stop_lets_a_running_tick_finish() -> None:
    finished = []
    release = asyncio.Event()

    async def slow(_: Sweeper) -> None:
        await release.wait()
        finished.append(True)

    loop = Sweeper(slow)
    loop.start()
    await loop.ticked(1)
    stopping = asyncio.create_task(loop.stop())
    await asyncio.sleep(0)
    release.set()
    await stopping
    assert finished == [True]
    assert loop.ticks == 1


async def test_stop_cancels_a_tick_that_outlives_its_grace() -> None:
    cancelled = []

    async def endless(_: Sweeper) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    loop = Sweeper(endless, grace_seconds=0.01)
    with capture_logs() as logged:
        loop.start()
        await loop.ticked(1)
        await loop.stop()
    assert cancelled == [True]
    assert not loop.running
    assert events(logged) == ["loop.tick_cancelled"]


async def test_a_tick_that_swallows_its_cancellation_cannot_hold_up_the_stop() -> None:
    release = asyncio.Event()

    async def stubborn(_: Sweeper) -> None:
        while not release.is_set():
            with suppress(asyncio.CancelledError):
                await release.wait()

    loop = Sweeper(stubborn, grace_seconds=0.01)
    with capture_logs() as logged:
        loop.start()
        await loop.ticked(1)
        await loop.stop()
        assert loop.running
        release.set()
        await ended()
    assert events(logged) == ["loop.tick_cancelled", "loop.tick_abandoned"]
    assert not loop.running


async def test_a_cancelled_stop_cancels_the_loop() -> None:
    async def endless(_: Sweeper) -> None:
        await asyncio.Event().wait()

    loop = Sweeper(endless, grace_seconds=3600)
    loop.start()
    await loop.ticked(1)
    stopping = asyncio.create_task(loop.stop())
    await asyncio.sleep(0)
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    await ended()
    assert not loop.running


async def test_a_loop_may_stop_itself() -> None:
    async def stop_from_within(loop: Sweeper) -> None:
        await loop.stop()

    loop = Sweeper(stop_from_within)
    loop.start()
    await loop.ticked(1)
    await loop.stop()
    assert loop.ticks == 1
    assert not loop.running


async def test_a_loop_starts_once_at_a_time_and_again_after_a_stop() -> None:
    loop = Sweeper()
    loop.start()
    with pytest.raises(RuntimeError, match="already running"):
        loop.start()
    await loop.ticked(1)
    await loop.stop()
    loop.start()
    await loop.ticked(2)
    await loop.stop()
    await loop.stop()
    assert loop.ticks == 2


async def test_stopping_a_loop_that_never_started_does_nothing() -> None:
    loop = Sweeper()
    await loop.stop()
    assert loop.ticks == 0


async def test_a_loop_does_not_inherit_the_log_context_of_its_starter() -> None:
    seen: list[dict[str, object]] = []

    async def sweep(_: Sweeper) -> None:
        seen.append(structlog.contextvars.get_contextvars())

    loop = Sweeper(sweep)
    with structlog.contextvars.bound_contextvars(request_id="r1"):
        loop.start()
        await loop.ticked(1)
    await loop.stop()
    assert seen == [{"loop": "sweeper"}]


async def test_a_group_starts_all_and_stops_all_at_the_same_time() -> None:
    # Each tick ends only after the other loop's stop was called, so stopping one after the other would not end.
    loops: list[Sweeper] = []

    async def until_all_are_stopping(_: Sweeper) -> None:
        for loop in loops:
            await loop._stopping.wait()

    loops += [Sweeper(until_all_are_stopping, grace_seconds=3600) for _ in range(3)]
    group = LoopGroup(loops)
    assert list(group) == loops
    group.start()
    for loop in loops:
        await loop.ticked(1)
    async with asyncio.timeout(PATIENCE_SECONDS):
        await group.stop()
    assert not any(loop.running for loop in group)
    assert [loop.ticks for loop in loops] == [1, 1, 1]
