"""Pollers that wait for work. They send no query while they wait. One arrival wakes one or two of them."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice

from callsheet.dispatch.facts import Criteria
from callsheet.dispatch.order.affinity import COLDEST, Cold
from callsheet.dispatch.queue_notifications import Arrival

# Two, because the first poller may have disconnected, or a poller of another process may be faster.
WOKEN_PER_ARRIVAL = 2
# How many waiting pollers are checked for the models of a job.
MAX_COMPARED = 64


class WakeUp:
    """The signal to one poller that there may be work for it."""

    def __init__(self, cold: Cold | None = None) -> None:
        self._signal = asyncio.get_running_loop().create_future()
        self._was_used = False
        self._cold = cold

    def is_warm_for(self, workflow_id: int) -> bool:
        return self._cold is not None and self._cold.get(workflow_id, COLDEST) < COLDEST

    def send(self) -> None:
        if not self._signal.done():
            self._signal.set_result(None)

    @property
    def is_unused(self) -> bool:
        return self._signal.done() and not self._was_used

    async def within(self, seconds: float) -> bool:
        """True if there may be work, False after the timeout."""
        try:
            async with asyncio.timeout(seconds):
                await asyncio.shield(self._signal)
        except TimeoutError:
            return False
        self._was_used = True
        return True


class Waiters:
    def __init__(self) -> None:
        self._waiting: dict[Criteria, OrderedDict[WakeUp, None]] = {}
        self.closed = False

    def close(self) -> None:
        """Ends every wait, so that a stopping server does not wait for its workers' long polls; workers poll again."""
        self.closed = True
        self.received(None)

    @contextmanager
    def waiting(self, criteria: Criteria, cold: Cold | None = None) -> Iterator[WakeUp]:
        """Registers a poller. The poller enters this before it asks the queue, so that it misses no arrival in
        between.
        """
        wake_up = WakeUp(cold)
        self._waiting.setdefault(criteria, OrderedDict())[wake_up] = None
        try:
            yield wake_up
        finally:
            queue = self._waiting.get(criteria, OrderedDict())
            queue.pop(wake_up, None)
            if not queue:
                self._waiting.pop(criteria, None)
            if wake_up.is_unused:
                # The poller was woken and leaves without asking the queue: wake the next one instead.
                self._wake(criteria, 1)

    def received(self, payload: str | None) -> None:
        """Handles a notification, or None if notifications may have been missed."""
        if payload is None:
            for criteria in tuple(self._waiting):
                self._wake(criteria, len(self._waiting[criteria]))
            return
        route = Arrival.read(payload).route
        left = WOKEN_PER_ARRIVAL
        for criteria in tuple(self._waiting):
            if left and criteria.matches(*route):
                self._warm_first(criteria, route[0])
                left -= self._wake(criteria, left)

    def provider_resumed(self, provider: str) -> None:
        """Wakes all pollers of a provider that is no longer paused, because its jobs were announced long ago."""
        for criteria in tuple(self._waiting):
            if provider in criteria.providers:
                self._wake(criteria, len(self._waiting[criteria]))

    def wake_all(self, criteria: Criteria) -> None:
        """Wakes all pollers with these criteria, because the poll of one of them is outdated."""
        self._wake(criteria, len(self._waiting.get(criteria, ())))

    def wake_instead(self, criteria: Criteria) -> None:
        """Wakes other pollers instead of a poller that leaves and may have been woken for work that it did not take.
        One poller of each kind that could take the same work is woken.
        """
        for other in tuple(self._waiting):
            if other.overlaps(criteria):
                self._wake(other, 1)

    def _warm_first(self, criteria: Criteria, workflow_id: int) -> None:
        """Wakes a poller that has the workflow's models loaded before those that have waited longer. This delays no
        job: the woken poller asks the queue at once.
        """
        queue = self._waiting[criteria]
        for wake_up in islice(queue, MAX_COMPARED):
            if wake_up.is_warm_for(workflow_id):
                queue.move_to_end(wake_up, last=False)
                return

    def _wake(self, criteria: Criteria, count: int) -> int:
        queue = self._waiting.get(criteria, OrderedDict())
        woken = 0
        while queue and woken < count:
            wake_up, _ = queue.popitem(last=False)
            wake_up.send()
            woken += 1
        return woken

    def __len__(self) -> int:
        return sum(len(queue) for queue in self._waiting.values())
