"""The points of a vote: ELO in whole points, so that an undone vote leaves no difference. Pure."""

from __future__ import annotations

from callsheet.wire.pipelines.candidates import Verdict

K = 32
# The points that both candidates gain or lose together: half of the points that a vote between equals moves.
TOGETHER = K // 4


def points(winner: int, loser: int) -> int:
    """The points that the winner gains and the loser loses. An unexpected result moves more points. No rating falls
    below zero.
    """
    expected = 1 / (1 + 10 ** ((loser - winner) / 400))
    return min(round(K * (1 - expected)), loser)


def points_back(change: int, winner: int) -> int:
    """The points that are given back when a vote is undone: all points, unless the winner has lost some to others
    since.
    """
    return min(change, winner)


def points_together(verdict: Verdict, one: int, other: int) -> int:
    """The points that each of two candidates gains if both are good, or loses if neither is. No rating falls below
    zero.
    """
    if verdict is Verdict.BOTH:
        return TOGETHER
    return -min(TOGETHER, one, other) if verdict is Verdict.NEITHER else 0


def points_back_together(change: int, one: int, other: int) -> int:
    """The points that are undone: all points, unless one of the candidates has lost some to others since."""
    return min(change, one, other)
