"""Counts the calls of a storage: those that fail, and those that are slow. Alerts and `/metrics` are made from it.

Real calls are counted, instead of probes: a probe may succeed while writes of users fail, for example on one full disk
of several.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from callsheet.toolbox.clock import Clock, SystemClock
from callsheet.wire.errors import Unavailable

WINDOW_SECONDS = 300.0
# Calls are added up for this time, so that a busy storage needs no more memory.
BUCKET_SECONDS = 10.0
SLOW_SECONDS = 3.0

CallKind = Literal["read", "write"]


class CallFigures(NamedTuple):
    """The calls of one kind in the last five minutes. Transfers, whose time depends on their size, are not `timed`."""

    kind: CallKind
    calls: int
    failed: int
    timed: int
    slow: int
    failed_in_a_row: int
    last_error: str | None


@dataclass(slots=True)
class _Bucket:
    start: float
    calls: int = 0
    failed: int = 0
    timed: int = 0
    slow: int = 0


@dataclass(slots=True)
class _OneKind:
    buckets: deque[_Bucket] = field(default_factory=deque)
    last_error: str | None = None
    # When the last call failed. None if it succeeded.
    failed_at: float | None = None
    failed_in_a_row: int = 0
    calls: int = 0
    failed: int = 0
    slow: int = 0


class StorageCalls:
    def __init__(self, slow_seconds: float = SLOW_SECONDS, clock: Clock | None = None):
        self.slow_seconds = slow_seconds
        self._clock = clock or SystemClock()
        self._kinds: dict[CallKind, _OneKind] = {"read": _OneKind(), "write": _OneKind()}

    @contextmanager
    def measured(self, kind: CallKind, *, is_timed: bool = True) -> Iterator[None]:
        """Counts the call in the block. A call that was canceled says nothing about the storage, and every response
        but Unavailable shows that it works. A part of a call is `timed` instead.
        """
        started = self._clock.monotonic()
        try:
            yield
        except Unavailable as error:
            self._count(kind, started, is_timed=is_timed, error=str(error))
            raise
        except Exception:
            self._count(kind, started, is_timed=is_timed)
            raise
        else:
            self._count(kind, started, is_timed=is_timed)

    @contextmanager
    def timed(self, kind: CallKind) -> Iterator[None]:
        """Measures the time of a part of a call, for example of the write of a megabyte."""
        started = self._clock.monotonic()
        try:
            yield
        finally:
            self._time(kind, started)

    def _count(self, kind: CallKind, started: float, *, is_timed: bool, error: str | None = None) -> None:
        if is_timed:
            self._time(kind, started)
        now, one = self._clock.monotonic(), self._kinds[kind]
        bucket = self._bucket(one, now)
        bucket.calls += 1
        one.calls += 1
        if error is None:
            one.failed_at, one.failed_in_a_row = None, 0
        else:
            bucket.failed += 1
            one.failed += 1
            one.failed_in_a_row += 1
            one.failed_at, one.last_error = now, error

    def _time(self, kind: CallKind, started: float) -> None:
        now, one = self._clock.monotonic(), self._kinds[kind]
        bucket, is_slow = self._bucket(one, now), now - started > self.slow_seconds
        bucket.timed += 1
        bucket.slow += is_slow
        one.slow += is_slow

    def _bucket(self, one: _OneKind, now: float) -> _Bucket:
        self._forget(one, now)
        if not one.buckets or now >= one.buckets[-1].start + BUCKET_SECONDS:
            one.buckets.append(_Bucket(now))
        return one.buckets[-1]

    def _forget(self, one: _OneKind, now: float) -> None:
        while one.buckets and one.buckets[0].start <= now - WINDOW_SECONDS:
            one.buckets.popleft()

    def figures(self) -> list[CallFigures]:
        """The calls of the last five minutes. If the last call failed, those before it count until another call shows
        that the storage works again.
        """
        found = []
        for kind, one in self._kinds.items():
            self._forget(one, self._clock.monotonic() if one.failed_at is None else one.failed_at)
            calls, failed, timed, slow = (
                sum(getattr(bucket, name) for bucket in one.buckets) for name in ("calls", "failed", "timed", "slow")
            )
            found.append(CallFigures(kind, calls, failed, timed, slow, one.failed_in_a_row, one.last_error))
        return found

    def totals(self) -> Iterator[tuple[CallKind, str, int]]:
        for kind, one in self._kinds.items():
            yield kind, "succeeded", one.calls - one.failed
            yield kind, "failed", one.failed
            yield kind, "slow", one.slow


class StorageMetrics(Collector):
    """The calls since the start of this process."""

    def __init__(self, calls: StorageCalls):
        self._calls = calls

    def collect(self) -> Iterable[Metric]:
        counted = CounterMetricFamily(
            "callsheet_storage_calls",
            "Calls of the storage by this process. Slow calls, and slow parts of calls, are counted in addition.",
            labels=["kind", "outcome"],
        )
        for kind, outcome, number in self._calls.totals():
            counted.add_metric([kind, outcome], number)
        yield counted
