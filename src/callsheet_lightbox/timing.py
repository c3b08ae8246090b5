"""The delays of a real ComfyUI, so that a benchmark measures a worker beside Lightbox as beside ComfyUI.

They were recorded on ComfyUI 0.7.0 on two cores. The messages of a run follow each other within two milliseconds, and
the history entry appears between the message of the end and the one after it. Responses over HTTP take time: fifty
prompts in a row took 6.6 ms each, and history and image together 12 ms.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from itertools import cycle
from typing import Literal

from aiohttp import web

Gap = Literal["taken", "started", "recorded", "ended"]
# Milliseconds. `taken`: from the response to a prompt until the queue gives it to the executor. `started`: from there
# to execution_start. `recorded`: from execution_success to the history entry. `ended`: from there to the last message.
RECORDED_MS: dict[Gap, tuple[float, ...]] = {
    "taken": (0.1, 0.1, 1.0, 0.3, 0.4, 3.5, 0.1, 0.1, 1.9, 0.6, 0.1, 1.5),
    "started": (0.1, 0.1, 0.9, 0.9, 0.1, 0.3, 0.1, 0.1, 1.2, 1.4, 1.1, 0.1),
    "recorded": (0.1, 0.3, 0.1, 1.7, 0.6, 0.1, 0.1, 0.1, 0.2, 0.3, 0.1, 0.1),
    "ended": (0.1, 0.1, 0.3, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1),
}
# Lightbox itself needs about one of the six milliseconds.
RESPONSE_SECONDS = 0.005
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Timing:
    """`is_recorded`: add the recorded delays. Otherwise there are none."""

    def __init__(self, is_recorded: bool = False):
        self.is_recorded = is_recorded
        self._gaps = {name: cycle(values) for name, values in RECORDED_MS.items()}

    def wait(self, gap: Gap) -> None:
        """Blocks the thread of the executor."""
        if self.is_recorded:
            time.sleep(next(self._gaps[gap]) / 1000)


@web.middleware
async def recorded_responses(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Delays every response of HTTP, but not the messages of a socket."""
    if request.path != "/ws":
        await asyncio.sleep(RESPONSE_SECONDS)
    return await handler(request)
