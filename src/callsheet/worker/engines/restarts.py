"""Decides when an engine's process is started or restarted. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from callsheet.wire.plurals import counted

_MAX_DOUBLINGS = 30


@dataclass(frozen=True, slots=True)
class RestartRules:
    """All times in seconds."""

    # Timeout from the start to the first response.
    start_seconds: float = 600.0
    # Timeout without a response after the first one.
    absent_seconds: float = 120.0
    # Wait after a run got stuck or did not stop: a slow node ends meanwhile.
    stuck_seconds: float = 20.0
    # Memory limit of the process and its children; None: no limit.
    memory_bytes: int | None = None
    # A process that ran at least this long is restarted at once.
    stable_seconds: float = 60.0
    first_pause_seconds: float = 1.0
    max_pause_seconds: float = 300.0
    check_seconds: float = 2.0

    def pause_seconds(self, failures: int) -> float:
        """Pause after this many short runs of the process in a row."""
        if failures == 0:
            return 0.0
        return min(self.max_pause_seconds, self.first_pause_seconds * 2.0 ** min(failures - 1, _MAX_DOUBLINGS))


@dataclass(frozen=True, slots=True)
class EngineSigns:
    """State of one engine. Times are from a monotonic clock; None: not the case now."""

    now: float
    started_at: float | None
    retry_at: float = 0.0
    has_responded: bool = False
    silent_since: float | None = None
    stuck_since: float | None = None
    memory_bytes: int | None = None
    # Jobs that need the engine, also those whose results are not fetched yet.
    in_use: int = 0


@dataclass(frozen=True, slots=True)
class RestartVerdict:
    """`rest`: the engine gets no further job, and is restarted when its jobs are over."""

    action: Literal["start", "restart", "rest"]
    reason: str = ""


def judge(rules: RestartRules, signs: EngineSigns) -> RestartVerdict | None:
    """The verdict on an engine. None if nothing needs to be done."""
    if signs.started_at is None:
        return RestartVerdict("start") if signs.now >= signs.retry_at else None
    if not signs.has_responded:
        late = signs.now - signs.started_at > rules.start_seconds
        message = f"It did not respond within {counted(rules.start_seconds, 'second')} of its start."
        return RestartVerdict("restart", message) if late else None
    if signs.stuck_since is not None and signs.now - signs.stuck_since >= rules.stuck_seconds:
        return RestartVerdict("restart", "It is stuck on a run.")
    if signs.silent_since is not None and signs.now - signs.silent_since > rules.absent_seconds:
        return RestartVerdict("restart", f"It has not responded for {counted(rules.absent_seconds, 'second')}.")
    used, limit = signs.memory_bytes, rules.memory_bytes
    if used is not None and limit is not None and used > limit:
        message = f"It uses {counted(used, 'byte')} of memory, and the limit is {limit}."
        return RestartVerdict("rest" if signs.in_use else "restart", message)
    return None
