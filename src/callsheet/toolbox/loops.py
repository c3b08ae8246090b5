"""The base class of all background loops: start, stop, wake, and a `tick` that tests call directly."""

from __future__ import annotations

import asyncio
import contextvars
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import cached_property
from random import Random

import structlog

from callsheet.toolbox.clock import Clock, SystemClock
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.outages import Outage, backoff_seconds

log = get_logger(__name__)
# A restart of a database is not an alert of each loop. It takes less than this, and backoff is at most 30 seconds.
SHORT_OUTAGE_SECONDS = 60.0
# The longest wait of a loop between two attempts during an outage. Work goes on soon after its end.
OUTAGE_CAP_SECONDS = 5.0


class Loop(ABC):
    """Calls `tick` every `interval_seconds` (±10 %, so that replicas drift apart) and at once after `wake`, until it is
    stopped.

    A failing tick never ends the loop: it is logged and tried again with backoff. An outage, which `start` gets a
    function to recognize, is logged once when it starts and once when it ends, without tracebacks. `ticks`, `failures`,
    `failures_in_a_row` and `last_success` (monotonic seconds of the clock) are for metrics and readiness.
    """

    name: str
    interval_seconds: float
    retry_base_seconds: float = 0.5
    retry_cap_seconds: float = 30.0

    def __init__(
        self, *, clock: Clock | None = None, grace_seconds: float = 10.0, random: Random | None = None
    ) -> None:
        self.ticks = 0
        self.failures = 0
        self.failures_in_a_row = 0
        self.last_success: float | None = None
        self._clock = clock or SystemClock()
        self._grace_seconds = grace_seconds
        self._random = random or Random()  # noqa: S311 - spreads load, guards nothing
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._woken = asyncio.Event()
        self._is_outage: Callable[[BaseException], bool] = _never

    @abstractmethod
    async def tick(self, now: datetime) -> object:
        """Does the work that is due at `now`. If more work waits, it returns a true value, and ticks again at once."""

    @cached_property
    def _outage(self) -> Outage:
        return Outage(f"loop {self.name}", monotonic=self._clock.monotonic)

    @property
    def alarming_failures(self) -> int:
        """Failures in a row for alerts. After a short outage every loop would raise one, until its next attempt."""
        return 0 if 0 < self._outage.seconds < SHORT_OUTAGE_SECONDS else self.failures_in_a_row

    @property
    def running(self) -> bool:
        return self._task is not None and not self._task.done()

    def start(self, is_outage: Callable[[BaseException], bool] | None = None) -> None:
        """Starts the loop with a first tick at once. `is_outage`: whether an error is the outage of another
        component.
        """
        if self.running:
            raise RuntimeError(f"loop {self.name} is already running")
        self._stopping.clear()
        self._is_outage = is_outage or _never
        # An empty context, so that log lines of the loop do not have the request id of its caller.
        self._task = asyncio.create_task(self._run(), name=f"loop:{self.name}", context=contextvars.Context())

    def wake(self) -> None:
        """Starts the next tick now. After a wake during a tick, one more tick follows."""
        self._woken.set()

    async def stop(self) -> None:
        """Lets a running tick finish within the grace time, then cancels it."""
        self._stopping.set()
        self._woken.set()
        task = self._task
        if task is None or task.done() or task is asyncio.current_task():
            return
        try:
            await asyncio.wait({task}, timeout=self._grace_seconds)
        finally:
            cancelled = task.cancel()
        if cancelled:
            log.warning("loop.tick_cancelled", loop=self.name, grace_seconds=self._grace_seconds)
            # With a limit: a tick that ignores its cancellation must not prevent the shutdown.
            _, pending = await asyncio.wait({task}, timeout=self._grace_seconds)
            if pending:
                log.error("loop.tick_abandoned", loop=self.name)

    async def _run(self) -> None:
        structlog.contextvars.bind_contextvars(loop=self.name)
        while not self._stopping.is_set():
            self._woken.clear()
            try:
                more = await self.tick(self._clock.now())
            except (Exception, asyncio.CancelledError) as error:
                if isinstance(error, asyncio.CancelledError) and _is_being_cancelled():
                    raise
                await self._after_failure(error)
            else:
                await self._after_success(more)

    async def _after_success(self, more: object) -> None:
        self.ticks += 1
        self.failures_in_a_row = 0
        self.last_success = self._clock.monotonic()
        self._outage.ended()
        if more:
            # Otherwise a tick that never awaits would block all other tasks.
            await asyncio.sleep(0)
        else:
            await _wait(self._woken, self.interval_seconds * self._random.uniform(0.9, 1.1))

    async def _after_failure(self, error: BaseException) -> None:
        self.ticks += 1
        self.failures += 1
        self.failures_in_a_row += 1
        is_outage = self._is_outage(error)
        cap = min(self.retry_cap_seconds, OUTAGE_CAP_SECONDS) if is_outage else self.retry_cap_seconds
        delay = backoff_seconds(self.failures_in_a_row, self.retry_base_seconds, cap, self._random)
        if is_outage:
            self._outage.failed(error)
        else:
            log.error(
                "loop.tick_failed",
                failures_in_a_row=self.failures_in_a_row,
                retry_in_seconds=round(delay, 3),
                exc_info=error,
            )
        # Only stop() ends this wait, not a wake: many wakes come while a database is down, and the database must not be
        # overloaded.
        await _wait(self._stopping, delay)


class LoopGroup:
    """Several loops that start together and stop at the same time."""

    def __init__(self, loops: Iterable[Loop], is_outage: Callable[[BaseException], bool] | None = None) -> None:
        self._loops = tuple(loops)
        self._is_outage = is_outage

    def __iter__(self) -> Iterator[Loop]:
        return iter(self._loops)

    def start(self) -> None:
        for loop in self._loops:
            loop.start(self._is_outage)

    async def stop(self) -> None:
        await asyncio.gather(*(loop.stop() for loop in self._loops))


def _never(error: BaseException) -> bool:
    return False


def _is_being_cancelled() -> bool:
    """Whether this task itself was canceled, not something that it awaited."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
