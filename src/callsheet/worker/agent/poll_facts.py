"""The facts for operators that an agent sends with some of its polls, because an agent of short jobs polls often."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from callsheet.toolbox.disk_space import read_space
from callsheet.toolbox.logs import get_logger
from callsheet.wire.worker.protocol import ReportedDisk
from callsheet.worker.engines.engines import Engines

log = get_logger(__name__)
# Minimum time between two reports.
REPORT_SECONDS = 30.0


class PollFacts:
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
