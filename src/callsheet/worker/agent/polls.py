"""The contents of an agent's poll: how many more jobs it requests, of which providers, and facts for operators.

A slot renders one job. For each slot the agent may hold one more job: while the engine renders, the agent fetches the
files of the next job or uploads the result of the last. The limit applies to each provider separately. So at most one
job waits for each slot, and it is the next job of that slot.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from callsheet.toolbox.disk_space import read_space
from callsheet.toolbox.logs import get_logger
from callsheet.wire.worker.protocol import ReportedDisk, max_leases
from callsheet.worker.engines.engines import Engines


@dataclass(frozen=True, slots=True)
class WorkerOffer:
    """`capacity` is the number of jobs that render at once. `wants`: the agent wants a job of `providers`. `prefetch`:
    that job would wait for a slot."""

    capacity: int
    providers: tuple[str, ...]
    wants: bool
    prefetch: bool = False


def offer_of(slots: Mapping[str, int], held: Mapping[str, int], *, prefetch: bool) -> WorkerOffer:
    """The offer of an agent. `slots` has each provider whose engines take jobs. `held` counts the jobs of all
    providers.
    """
    capacity, total = sum(slots.values()), sum(held.values())
    if total < capacity:
        # A job for an idle engine has priority over a prefetched job for a busy one.
        free = tuple(each for each, count in slots.items() if held.get(each, 0) < count)
        return WorkerOffer(capacity, free, wants=True)
    ahead: tuple[str, ...] = ()
    if total < max_leases(capacity, prefetch=prefetch):
        ahead = tuple(each for each, count in slots.items() if held.get(each, 0) < max_leases(count, prefetch=prefetch))
    return WorkerOffer(capacity, ahead or tuple(slots), wants=bool(ahead), prefetch=bool(ahead))


log = get_logger(__name__)
# Minimum time between two reports.
REPORT_SECONDS = 30.0


class PollFacts:
    """Facts for operators. Only some polls have them, because an agent of short jobs polls often."""

    def __init__(
        self,
        directory: Path,
        engines: Engines,
        capabilities: Callable[[], dict[str, Any]],
        clock: Callable[[], float] = time.monotonic,
    ):
        self._directory = directory
        self._engines = engines
        self._capabilities = capabilities
        self._clock = clock
        self._sent_at = -math.inf
        # The capabilities in the last report, and those that the control plane has.
        self._sent: dict[str, Any] = {}
        self._known: dict[str, Any] = {}

    def registered(self) -> dict[str, Any]:
        """The capabilities for a registration, which replaces what was reported before."""
        self._known = self._sent = self._capabilities()
        return self._known

    def due(self) -> dict[str, Any]:
        """The fields of the next poll."""
        now = self._clock()
        if now - self._sent_at < REPORT_SECONDS:
            return {}
        self._sent_at = now
        self._sent = self._capabilities()
        facts: dict[str, Any] = {"engine_use": self._engines.reported_use(), "disk": self._disk()}
        # They change when an engine was updated. They may have some kilobytes, so they are sent only then.
        return facts if self._sent == self._known else facts | {"capabilities": self._sent}

    def arrived(self) -> None:
        """Call after the response to a poll."""
        self._known = self._sent

    def _disk(self) -> ReportedDisk | None:
        try:
            space = read_space(self._directory)
        except OSError as error:
            log.warning("worker.disk_not_read", reason=str(error.strerror))
            return None
        return ReportedDisk(free_bytes=space.free_bytes, size_bytes=space.size_bytes)
