"""Waiting for something to become true, without guessing how long it takes."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable

# A limit for what never comes: where nothing is wrong it costs nothing, on however slow a machine.
PATIENCE_SECONDS = 180.0


async def until(condition: Callable[[], object], seconds: float = PATIENCE_SECONDS, every: float = 0.005) -> None:
    """Asks again and again; `condition` may be a plain function or answer something to await.

    The latter mostly asks a server, which has better things to do: it is asked less and less often.
    """
    async with asyncio.timeout(seconds):
        while True:
            response = condition()
            is_question = inspect.isawaitable(response)
            if await response if is_question else response:
                return
            await asyncio.sleep(every)
            every = min(every * 1.3, max(every, 0.05)) if is_question else every
