"""That the agent shall leave, why, and until when what it has in hand may be finished."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from callsheet.toolbox.together import first_of


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
