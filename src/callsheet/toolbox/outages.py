"""Outages: a log line when a component loses something it needs and when it is back, and the waits between attempts."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random

from callsheet.toolbox.logs import get_logger

log = get_logger(__name__)


class Outage:
    """The outage of one component: logged when it starts and when it ends. Attempts that fail meanwhile are counted.

    `what` is the event's name: `database.unreachable` and `database.reachable`. If attempts of the component run at the
    same time, each has the number that `start_attempt` gives, because results arrive in any order: a connection that
    still works while the server stops does not end the outage, and a late refusal is not a new one.
    """

    def __init__(self, component: str, what: str = "database", monotonic: Callable[[], float] = time.monotonic):
        self._component = component
        self._what = what
        self._monotonic = monotonic
        self._since: float | None = None
        self._attempts = 0
        # Raised when an outage starts and when it ends.
        self._changes = 0

    @property
    def seconds(self) -> float:
        """How long it lasts. 0 if there is no outage."""
        return 0.0 if self._since is None else self._monotonic() - self._since

    def start_attempt(self) -> int:
        return self._changes

    def failed(self, error: BaseException, attempt: int | None = None) -> None:
        if self._since is None and attempt not in (None, self._changes):
            return
        self._attempts += 1
        if self._since is None:
            self._changes += 1
            self._since = self._monotonic()
            reason = str(error) or type(error).__name__
            log.warning(f"{self._what}.unreachable", component=self._component, reason=reason)

    def ended(self, attempt: int | None = None) -> None:
        """Records a successful attempt. Costs nothing if there was no outage."""
        if self._since is not None and attempt in (None, self._changes):
            self._changes += 1
            seconds = round(self._monotonic() - self._since, 1)
            log.info(
                f"{self._what}.reachable", component=self._component, after_seconds=seconds, attempts=self._attempts
            )
            self._since, self._attempts = None, 0


# 2**64 times any base exceeds every maximum; without this limit, attempt 1100 overflows a float.
_MAX_DOUBLINGS = 64


def backoff_seconds(attempt: int, base: float, cap: float, random: Random) -> float:
    """Exponential backoff with full jitter: after the first failure (`attempt` 1) anything up to `base`, doubled with
    every further failure, never above `cap`.

    Full jitter, because workers that failed together must not retry together.
    """
    if attempt < 1:
        raise ValueError("attempts count from 1")
    return random.uniform(0.0, min(cap, base * 2.0 ** min(attempt - 1, _MAX_DOUBLINGS)))
