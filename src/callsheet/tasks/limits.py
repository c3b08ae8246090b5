"""Limits that providers declare. They are sent to the queue when a task of the provider is submitted."""

from __future__ import annotations

import time

from callsheet.dispatch.operate.limits import ConcurrencyLimits

# The same limit is not sent again for this time.
FRESH_SECONDS = 5.0
MAX_REMEMBERED = 10_000


class TaskLimits:
    def __init__(self, limits: ConcurrencyLimits):
        self._limits = limits
        self._declared: dict[str, tuple[int, float]] = {}

    async def declare(self, identifier: str, limit: int) -> None:
        """Sets the limit unless an admin has set one. If an admin deleted the limit, this sets it again."""
        now = time.monotonic()
        declared, declared_at = self._declared.get(identifier, (None, 0.0))
        if declared == limit and now - declared_at < FRESH_SECONDS:
            return
        await self._limits.declare(identifier, limit)
        if len(self._declared) >= MAX_REMEMBERED:
            self._declared.clear()
        self._declared[identifier] = (limit, now)
