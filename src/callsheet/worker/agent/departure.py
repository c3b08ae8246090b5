"""Whether the agent leaves, why, and until when its jobs may finish."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from callsheet.toolbox.concurrently import first_of

DRAINED = "drained"
# Exit code of a drained worker, different from that of a crash: the units in deploy/ do not start the worker again.
# Shells, sysexits.h and systemd use codes up to 78 and from 126 on.
DRAINED_EXIT_CODE = 83


class Departure:
    """The departure of an agent. `begin` may be repeated: EC2 first recommends to leave, and later announces the
    machine's termination.
    """

    def __init__(self) -> None:
        self.reason: str | None = None
        self._started = asyncio.Event()
        self._urged = asyncio.Event()
        self._deadline: float | None = None

    def begin(self, reason: str, seconds: float | None) -> None:
        """Starts the departure. If `seconds` is None, jobs may take as long as they need. The earliest deadline
        counts.
        """
        if seconds is not None:
            deadline = time.monotonic() + max(0.0, seconds)
            if self._deadline is None or deadline < self._deadline:
                self._deadline, self.reason = deadline, reason
        self.reason = self.reason or reason
        self._started.set()
        self._urged.set()

    @property
    def exit_code(self) -> int:
        return DRAINED_EXIT_CODE if self.reason == DRAINED else 0

    @property
    def has_started(self) -> bool:
        return self._started.is_set()

    async def wait(self) -> None:
        await self._started.wait()

    async def finish(self, running: Mapping[Any, asyncio.Task[Any]]) -> None:
        """Waits for the running jobs until the deadline, which may become earlier meanwhile."""
        while running:
            left = self.seconds_left()
            if left is not None and left <= 0:
                return
            await first_of(*running.values(), event=self.urged_again(), seconds=left)

    def urged_again(self) -> asyncio.Event:
        """An event that the next `begin` sets."""
        self._urged.clear()
        return self._urged

    def seconds_left(self) -> float | None:
        return None if self._deadline is None else self._deadline - time.monotonic()
