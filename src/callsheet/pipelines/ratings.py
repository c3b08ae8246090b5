"""What a vote is worth: ELO in whole points, so that taking a vote back leaves nothing behind. Pure."""

from __future__ import annotations

START = 1000
K = 32


def points(winner: int, loser: int) -> int:
    """What the winner gains and the loser gives: the more, the less it was to be expected. Nobody falls below zero."""
    expected = 1 / (1 + 10 ** ((loser - winner) / 400))
    return min(round(K * (1 - expected)), loser)
