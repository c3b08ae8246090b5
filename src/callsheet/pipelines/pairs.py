"""Which two candidates a person is asked to compare. Pure: the same contenders and seed make the same pair."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from random import Random
from typing import NamedTuple
from uuid import UUID

# How many points of ELO one vote more is worth when an opponent is chosen: half of what a vote between equals moves.
VOTE_WEIGHT = 16


class Contender(NamedTuple):
    id: UUID
    # Its run's count of candidates, which is the same in another run of the same seed; ids are not.
    number: int
    position: int
    elo: int
    votes: int


Pair = tuple[Contender, Contender]


def choose_pair(contenders: Sequence[Contender], compared: Collection[frozenset[UUID]], seed: int) -> Pair | None:
    """One that has few votes, against one of its step that is close in ELO and has few too.

    `compared` are pairs that this person has judged: they are not asked again. None where nothing is left to compare.
    """
    mixed = sorted(contenders, key=lambda each: each.number)
    random = Random(seed)  # noqa: S311 (chosen, not guarded)
    random.shuffle(mixed)
    # Stable: where votes are equal, the seed has decided.
    for first in sorted(mixed, key=lambda each: each.votes):
        opponents = [
            each
            for each in mixed
            if each.position == first.position
            and each.id != first.id
            and frozenset((first.id, each.id)) not in compared
        ]
        if opponents:
            second = min(opponents, key=lambda each: abs(each.elo - first.elo) + VOTE_WEIGHT * each.votes)
            # Which one is shown first is left to the seed as well: people tend to take the left one.
            return (first, second) if random.random() < 0.5 else (second, first)
    return None
