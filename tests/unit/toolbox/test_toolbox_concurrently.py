"""Several things at once: a failure is raised only after all of them have ended."""

from __future__ import annotations

import asyncio

import pytest

from callsheet.toolbox.concurrently import all_of


async def test_results_come_in_the_order_of_the_work() -> None:
    async def response(number: int) -> int:
        await asyncio.sleep(0.001 * (3 - number))
        return number

    assert await all_of(response(number) for number in range(4)) == [0, 1, 2, 3]


async def test_a_failure_neither_stops_the_others_nor_leaves_them_running() -> None:
    done = []

    async def fail() -> None:
        raise ConnectionError

    async def slow() -> None:
        await asyncio.sleep(0.001)
        done.append("slow")

    with pytest.raises(ConnectionError):
        await all_of([fail(), slow()])
    assert done == ["slow"]
