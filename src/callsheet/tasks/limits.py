"""Limits that providers declare, sent to the queue when a task of theirs is submitted."""

from __future__ import annotations

import time

from callsheet.dispatch.overview import Overview

# A limit that was sent is not sent again for so long, unless it is another one.
FRESH_SECONDS = 5.0
MOST_REMEMBERED = 10_000


class Limits:
    def __init__(self, overview: Overview):
        self._overview = overview
        self._told: dict[str, tuple[int, float]] = {}

    async def declare(self, identifier: str, limit: int) -> None:
        """The limit in force from now on, unless an admin has set one. One that an admin has taken away comes back."""
        now = time.monotonic()
        told, told_at = self._told.get(identifier, (None, 0.0))
        if told == limit and now - told_at < FRESH_SECONDS:
            return
        await self._overview.declare_limit(identifier, limit)
        if len(self._told) >= MOST_REMEMBERED:
            self._told.clear()
        self._told[identifier] = (limit, now)
