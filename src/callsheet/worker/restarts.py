"""When an engine's process is started, restarted or spared. Pure: what is seen goes in, what to do comes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

_MOST_DOUBLINGS = 30


@dataclass(frozen=True, slots=True)
class RestartRules:
    """All times in seconds."""

    # Until it answers for the first time.
    start_seconds: float = 600.0
    # Without an answer, later.
    absent_seconds: float = 120.0
    # After a run was found stuck, or would not stop: a node that is only slow ends meanwhile.
    stuck_seconds: float = 20.0
    # Of the process and its children; None: as much as it likes.
    memory_bytes: int | None = None
    # A process that lived so long after its start is started again at once.
    stable_seconds: float = 60.0
    first_pause_seconds: float = 1.0
    longest_pause_seconds: float = 300.0
    look_seconds: float = 2.0

    def pause_seconds(self, failures: int) -> float:
        """After so many short lives in a row."""
        if failures == 0:
            return 0.0
        return min(self.longest_pause_seconds, self.first_pause_seconds * 2.0 ** min(failures - 1, _MOST_DOUBLINGS))


@dataclass(frozen=True, slots=True)
class Signs:
    """What is known of one engine. Moments on a monotonic clock; None: not now."""

    now: float
    started_at: float | None
    retry_at: float = 0.0
    has_answered: bool = False
    silent_since: float | None = None
    stuck_since: float | None = None
    memory_bytes: int | None = None
    # Jobs that need it, also those whose results are still to be fetched.
    in_use: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """`rest`: no further job; it is restarted when those it has are over."""

    action: Literal["start", "restart", "rest"]
    reason: str = ""


def judge(rules: RestartRules, signs: Signs) -> Verdict | None:
    """None: leave it as it is."""
    if signs.started_at is None:
        return Verdict("start") if signs.now >= signs.retry_at else None
    if not signs.has_answered:
        late = signs.now - signs.started_at > rules.start_seconds
        message = f"It did not answer within {rules.start_seconds:g} seconds of its start."
        return Verdict("restart", message) if late else None
    if signs.stuck_since is not None and signs.now - signs.stuck_since >= rules.stuck_seconds:
        return Verdict("restart", "It is stuck on a run.")
    if signs.silent_since is not None and signs.now - signs.silent_since > rules.absent_seconds:
        return Verdict("restart", f"It has not responded for {rules.absent_seconds:g} seconds.")
    used, limit = signs.memory_bytes, rules.memory_bytes
    if used is not None and limit is not None and used > limit:
        message = f"It uses {used} bytes of memory, and the limit is {limit}."
        return Verdict("rest" if signs.in_use else "restart", message)
    return None
