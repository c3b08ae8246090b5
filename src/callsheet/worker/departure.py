"""That the agent shall leave, why, and until when what it has in hand may be finished."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from callsheet.toolbox.together import first_of

DRAINED = "drained"
# Exit code of a drained worker. A supervisor can tell it from a crash: the units in deploy/ do not start it again.
# Shells, sysexits.h and systemd use codes up to 78 and from 126 on.
DRAINED_EXIT_CODE = 83


class Departure:
    """May be urged on: a machine that was advised to leave can later be told that it is taken away."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self._begun = asyncio.Event()
        self._urged = asyncio.Event()
        self._deadline: float | None = None

    def begin(self, reason: str, seconds: float | None) -> None:
        """`seconds` None leaves as much time as the jobs take. The earliest deadline counts."""
        if seconds is not None:
            deadline = time.monotonic() + max(0.0, seconds)
            if self._deadline is None or deadline < self._deadline:
                self._deadline, self.reason = deadline, reason
        self.reason = self.reason or reason
        self._begun.set()
        self._urged.set()

    @property
    def exit_code(self) -> int:
        """What the process ends with."""
        return DRAINED_EXIT_CODE if self.reason == DRAINED else 0

    @property
    def has_begun(self) -> bool:
        return self._begun.is_set()

    async def wait(self) -> None:
        await self._begun.wait()

    async def finish(self, running: Mapping[Any, asyncio.Task[Any]]) -> None:
        """Waits for what runs, as long as there is time, which may become less meanwhile."""
        while running:
            left = self.seconds_left()
            if left is not None and left <= 0:
                return
            await first_of(*running.values(), event=self.urged_again(), seconds=left)

    def urged_again(self) -> asyncio.Event:
        """Set by the next word about it."""
        self._urged.clear()
        return self._urged

    def seconds_left(self) -> float | None:
        return None if self._deadline is None else self._deadline - time.monotonic()
