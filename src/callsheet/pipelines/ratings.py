"""What a vote is worth: ELO in whole points, so that taking a vote back leaves nothing behind. Pure."""

from __future__ import annotations

K = 32


def points(winner: int, loser: int) -> int:
    """What the winner gains and the loser gives: the more, the less it was to be expected. No rating falls below
    zero."""
    expected = 1 / (1 + 10 ** ((loser - winner) / 400))
    return min(round(K * (1 - expected)), loser)


def points_back(change: int, winner: int) -> int:
    """What is given back when a vote is undone: all of it, unless the winner has lost it to others since."""
    return min(change, winner)
