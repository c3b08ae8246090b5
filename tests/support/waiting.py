"""Waiting for something to become true, without guessing how long it takes."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable

# The limit for a condition that never becomes true. A test that passes does not wait for it.
PATIENCE_SECONDS = 180.0


async def until(condition: Callable[[], object], seconds: float = PATIENCE_SECONDS, every: float = 0.005) -> None:
    """Checks `condition` repeatedly. It may be a plain function or return an awaitable.

    An awaitable usually sends a request to a server, so the interval becomes longer each time.
    """
    async with asyncio.timeout(seconds):
        while True:
            response = condition()
            is_question = inspect.isawaitable(response)
            if await response if inspect.isawaitable(response) else response:
                return
            await asyncio.sleep(every)
            every = min(every * 1.3, max(every, 0.05)) if is_question else every
