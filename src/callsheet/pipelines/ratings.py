"""What a vote is worth: ELO in whole points, so that taking a vote back leaves nothing behind. Pure."""

from __future__ import annotations

from callsheet.wire.candidates import Verdict

K = 32
# Points that both candidates gain or lose together: half of what a vote between equals moves.
TOGETHER = K // 4


def points(winner: int, loser: int) -> int:
    """What the winner gains and the loser gives: the more, the less it was to be expected. No rating falls below
    zero."""
    expected = 1 / (1 + 10 ** ((loser - winner) / 400))
    return min(round(K * (1 - expected)), loser)


def points_back(change: int, winner: int) -> int:
    """What is given back when a vote is undone: all of it, unless the winner has lost it to others since."""
    return min(change, winner)


def points_together(verdict: Verdict, one: int, other: int) -> int:
    """What each of two candidates gains if both are good, or loses if neither is. No rating falls below zero."""
    if verdict is Verdict.BOTH:
        return TOGETHER
    return -min(TOGETHER, one, other) if verdict is Verdict.NEITHER else 0


def points_back_together(change: int, one: int, other: int) -> int:
    """What is undone of it: all, unless one of them has lost points to others since."""
    return min(change, one, other)
