"""Simulated crashes leave the connections of the test's own pools usable."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from callsheet.plumbing.failpoints import Crashed, Failpoint
from callsheet.settings import Settings
from tests.support.jobs.crashes import crashed_at


@pytest.mark.parametrize("steps", [1, 2])
async def test_a_crash_while_a_connection_is_returned_keeps_it_in_the_pool(settings: Settings, steps: int) -> None:
    assert settings.database.dsn is not None
    returning: list[asyncio.Task[None]] = []
    async with asyncpg.create_pool(settings.database.dsn.get_secret_value(), min_size=1, max_size=1) as pool:

        async def crash_during_the_return() -> None:
            returning.append(asyncio.create_task(pool.release(await pool.acquire())))
            for _ in range(steps):
                await asyncio.sleep(0)
            raise Crashed

        assert await crashed_at(Failpoint.SUBMIT_BEFORE_RELAY, crash_during_the_return())
        assert pool.get_idle_size() == 1
