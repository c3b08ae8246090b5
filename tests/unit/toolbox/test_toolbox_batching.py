"""Calls that arrive together share one piece of work; a single call does not wait for others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from callsheet.toolbox.batching import Batcher
from tests.support.waiting import PATIENCE_SECONDS


class Work:
    """Doubles numbers, batch by batch; holds a batch back while `gate` is closed."""

    def __init__(self, **options: Any) -> None:
        self.batches: list[list[int]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.poison: dict[int, BaseException] = {}
        self.batcher = Batcher(self.run, **options)

    async def run(self, items: Sequence[int]) -> list[int]:
        self.batches.append(list(items))
        await self.gate.wait()
        for item in items:
            if item in self.poison:
                raise self.poison[item]
        return [item * 2 for item in items]

    async def busy(self) -> asyncio.Task[int]:
        """A batch of one (the number 0) that is in work until the gate opens."""
        self.gate.clear()
        task = asyncio.create_task(self.batcher(0))
        while not self.batches:
            await asyncio.sleep(0)
        return task


async def settle() -> None:
    for _ in range(4):
        await asyncio.sleep(0)


async def test_a_single_call_runs_at_once_as_a_batch_of_one() -> None:
    work = Work()
    for number in (4, 5):
        call = asyncio.create_task(work.batcher(number))
        # A few turns of the loop and no timer.
        await settle()
        assert call.done()
        assert call.result() == number * 2
    assert work.batches == [[4], [5]]
    assert (work.batcher.batches, work.batcher.items) == (2, 2)


async def test_calls_that_arrive_together_are_one_batch_in_their_order() -> None:
    work = Work()
    assert await asyncio.gather(*(work.batcher(number) for number in range(20))) == [2 * n for n in range(20)]
    assert work.batches == [list(range(20))]


async def test_calls_that_arrive_while_a_batch_runs_are_the_next_batch() -> None:
    work = Work()
    first = await work.busy()
    others = [asyncio.create_task(work.batcher(number)) for number in (1, 2, 3)]
    await settle()
    assert work.batches == [[0]]
    work.gate.set()
    assert await asyncio.gather(first, *others) == [0, 2, 4, 6]
    assert work.batches == [[0], [1, 2, 3]]


async def test_no_batch_is_larger_than_the_limit_and_nothing_is_left_over() -> None:
    work = Work(limit=4)
    assert await asyncio.gather(*(work.batcher(number) for number in range(10))) == [2 * n for n in range(10)]
    assert work.batches == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


async def test_a_poisoned_item_fails_alone() -> None:
    work = Work(isolate=(ValueError,))
    work.poison[7] = ValueError("bad row")
    results = await asyncio.gather(*(work.batcher(number) for number in range(20)), return_exceptions=True)
    assert [result for number, result in enumerate(results) if number != 7] == [2 * n for n in range(20) if n != 7]
    assert isinstance(results[7], ValueError)
    assert work.batches == [list(range(20)), *[[number] for number in range(20)]]


async def test_an_error_that_is_not_isolated_fails_every_call_of_the_batch_and_no_other() -> None:
    work = Work(isolate=(ValueError,))
    work.poison[2] = ConnectionError("gone")
    first = await work.busy()
    unlucky = [asyncio.create_task(work.batcher(number)) for number in (1, 2, 3)]
    work.gate.set()
    results = await asyncio.gather(first, *unlucky, return_exceptions=True)
    assert results[0] == 0
    assert [type(result) for result in results[1:]] == [ConnectionError] * 3
    assert work.batches == [[0], [1, 2, 3]]
    assert await work.batcher(5) == 10


async def test_a_caller_that_leaves_before_the_work_begins_is_not_part_of_it() -> None:
    work = Work()
    first = await work.busy()
    leaver, stayer = asyncio.create_task(work.batcher(1)), asyncio.create_task(work.batcher(2))
    await settle()
    leaver.cancel()
    work.gate.set()
    assert await asyncio.gather(first, stayer) == [0, 4]
    assert leaver.cancelled()
    assert work.batches == [[0], [2]]


async def test_an_item_is_worked_on_although_its_caller_left_a_shield() -> None:
    work = Work()
    first = await work.busy()
    added = work.batcher.add(1)

    async def wait() -> None:
        await asyncio.shield(added)

    caller = asyncio.create_task(wait())
    await asyncio.sleep(0)
    caller.cancel()
    work.gate.set()
    assert (await added, await first, work.batches) == (2, 0, [[0], [1]])
    assert caller.cancelled()


async def test_a_result_whose_caller_left_during_the_work_is_abandoned_and_the_others_are_served() -> None:
    abandoned: list[tuple[int, int]] = []

    async def give_back(item: int, result: int) -> None:
        abandoned.append((item, result))

    work = Work(abandoned=give_back)
    work.gate.clear()
    leaver, stayer = asyncio.create_task(work.batcher(1)), asyncio.create_task(work.batcher(2))
    while not work.batches:
        await asyncio.sleep(0)
    leaver.cancel()
    await settle()
    work.gate.set()
    assert await stayer == 4
    assert leaver.cancelled()
    assert work.batches == [[1, 2]]
    assert abandoned == [(1, 2)]


async def test_the_result_of_a_caller_canceled_just_before_it_gets_it_is_abandoned_too() -> None:
    abandoned: list[tuple[int, int]] = []

    async def give_back(item: int, result: int) -> None:
        abandoned.append((item, result))

    async def run(items: Sequence[int]) -> list[int]:
        # Runs right after this batch has returned, before the caller's own turn.
        asyncio.get_running_loop().call_soon(caller.cancel)
        return [item * 2 for item in items]

    batcher = Batcher(run, abandoned=give_back)
    caller = asyncio.create_task(batcher(4))
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert abandoned == [(4, 8)]


async def test_the_result_of_a_caller_that_left_is_abandoned_also_if_its_batch_was_run_one_by_one() -> None:
    abandoned: list[int] = []

    async def give_back(item: int, result: int) -> None:
        abandoned.append(item)

    work = Work(isolate=(ValueError,), abandoned=give_back)
    work.poison[3] = ValueError("bad row")
    work.gate.clear()
    callers = [asyncio.create_task(work.batcher(number)) for number in (1, 2, 3)]
    while not work.batches:
        await asyncio.sleep(0)
    callers[0].cancel()
    callers[2].cancel()
    await settle()
    work.gate.set()
    assert await callers[1] == 4
    assert abandoned == [1]


async def test_an_error_in_the_abandoned_callback_does_not_affect_other_callers() -> None:
    async def give_back(item: int, result: int) -> None:
        raise ConnectionError("cannot give it back now")

    work = Work(abandoned=give_back)
    work.gate.clear()
    callers = [asyncio.create_task(work.batcher(number)) for number in (1, 2)]
    while not work.batches:
        await asyncio.sleep(0)
    later = asyncio.create_task(work.batcher(3))
    await settle()
    callers[0].cancel()
    await settle()
    work.gate.set()
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await asyncio.gather(callers[1], later) == [4, 6]


async def test_a_cancelled_worker_cancels_its_callers_instead_of_leaving_them_for_ever() -> None:
    work = Work()
    work.poison[1] = asyncio.CancelledError()
    async with asyncio.timeout(PATIENCE_SECONDS):
        with pytest.raises(asyncio.CancelledError):
            await work.batcher(1)
        assert await work.batcher(2) == 4


async def test_a_second_batch_runs_beside_the_first_where_half_a_batch_waits() -> None:
    work = Work(limit=4, at_once=2)
    first = await work.busy()
    others = [asyncio.create_task(work.batcher(1))]
    await settle()
    # One is too little for a batch of its own.
    assert work.batches == [[0]]
    others += [asyncio.create_task(work.batcher(number)) for number in (2, 3, 4, 5)]
    await settle()
    assert work.batches == [[0], [1, 2, 3, 4]]
    others += [asyncio.create_task(work.batcher(number)) for number in (6, 7)]
    await settle()
    # Two run, and there is no third.
    assert len(work.batches) == 2
    work.gate.set()
    assert await asyncio.gather(first, *others) == [2 * n for n in range(8)]
    assert work.batches == [[0], [1, 2, 3, 4], [5, 6, 7]]
    assert work.batcher.is_idle


async def test_two_batches_at_once_leave_nothing_behind() -> None:
    work = Work(limit=4, at_once=2)
    work.poison[3] = ConnectionError("gone")
    results = await asyncio.gather(*(work.batcher(number) for number in range(11)), return_exceptions=True)
    assert [result for result in results if isinstance(result, int)] == [2 * n for n in range(4, 11)]
    assert [type(result) for result in results[:4]] == [ConnectionError] * 4
    assert work.batcher.is_idle
    assert await work.batcher(20) == 40
