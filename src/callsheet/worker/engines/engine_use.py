"""How much of its time an engine rendered, by the agent's own clock. No I/O."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

WINDOW_SECONDS = 3600.0
# Old time leaves the window in pieces of this length.
PIECE_SECONDS = 60.0


@dataclass(slots=True)
class _Piece:
    started: float
    # Seconds of slots that rendered, and of all slots.
    busy: float = 0.0
    all: float = 0.0


class EngineUseMeter:
    """Adds up the time of an engine's slots, and how much of it they were busy, in the last hour."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._added_until = clock()
        self._busy = 0
        self._slots = 0
        self._pieces: deque[_Piece] = deque()

    def change(self, busy: int, slots: int) -> None:
        """Call after each change. `slots`: 0 while the engine takes no jobs; a busy slot still counts."""
        self._add_up()
        self._busy, self._slots = busy, max(busy, slots)

    def idle_share(self) -> tuple[float, float] | None:
        """The share of time in which its slots did not render, and the measured seconds. None if the engine took no
        jobs in this time.
        """
        self._add_up()
        whole = sum(piece.all for piece in self._pieces)
        if whole <= 0:
            return None
        idle = 1.0 - sum(piece.busy for piece in self._pieces) / whole
        measured = min(WINDOW_SECONDS, self._added_until - self._pieces[0].started)
        return min(1.0, max(0.0, idle)), measured

    def _add_up(self) -> None:
        now = self._clock()
        start = max(self._added_until, now - WINDOW_SECONDS)
        while start < now:
            if not self._pieces or start >= self._pieces[-1].started + PIECE_SECONDS:
                self._pieces.append(_Piece(start))
            piece = self._pieces[-1]
            end = min(now, piece.started + PIECE_SECONDS)
            piece.busy += self._busy * (end - start)
            piece.all += self._slots * (end - start)
            start = end
        self._added_until = now
        while self._pieces and self._pieces[0].started + PIECE_SECONDS <= now - WINDOW_SECONDS:
            self._pieces.popleft()
