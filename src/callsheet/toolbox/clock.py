"""The clock, as an object that tests can replace."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """The time of day: aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go backwards, for measuring durations."""
        ...


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


class ManualClock:
    """A clock that moves only when a test advances it."""

    def __init__(self, now: datetime | None = None) -> None:
        now = now or datetime(2026, 1, 1, tzinfo=UTC)
        if now.tzinfo is None:
            raise ValueError("a clock needs an aware datetime")
        self._now = now.astimezone(UTC)
        self._monotonic = 0.0

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError("a clock goes forwards only")
        self._now += timedelta(seconds=seconds)
        self._monotonic += seconds
