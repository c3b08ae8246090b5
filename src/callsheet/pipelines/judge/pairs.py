"""Chooses two candidates for a user to compare. Pure: the same candidates and seed result in the same pair."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from random import Random
from typing import NamedTuple
from uuid import UUID

# The number of ELO points that one more vote counts when an opponent is chosen: half of the points that a vote between
# equals moves.
VOTE_WEIGHT = 16


class Contender(NamedTuple):
    id: UUID
    # The number of the candidate in its run. It is the same in another run with the same seed, but ids differ.
    number: int
    position: int
    elo: int
    votes: int


Pair = tuple[Contender, Contender]


def choose_pair(contenders: Sequence[Contender], compared: Collection[frozenset[UUID]], seed: int) -> Pair | None:
    """A candidate with few votes, and one of the same step with similar ELO that has few votes too.

    `compared`: pairs that this user has judged; they are not returned again. None if nothing is left to compare.
    """
    mixed = sorted(contenders, key=lambda each: each.number)
    random = Random(seed)  # noqa: S311 (chosen, not guarded)
    random.shuffle(mixed)
    # The sort is stable: the seed decides between candidates with equal votes.
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
            # The seed also decides which candidate is shown first, because people tend to choose the left one.
            return (first, second) if random.random() < 0.5 else (second, first)
    return None


def choose_pairs(
    contenders: Sequence[Contender], compared: Collection[frozenset[UUID]], seed: int, max_pairs: int
) -> list[Pair]:
    """The next pairs, as if the user judged none of them meanwhile. The first is the pair of `choose_pair`.
    Candidates of chosen pairs count as voted on, so that the same candidate is not in every pair.
    """
    left = {each.id: each for each in contenders}
    taken = set(compared)
    pairs: list[Pair] = []
    while len(pairs) < max_pairs and (pair := choose_pair([*left.values()], taken, seed + len(pairs))) is not None:
        pairs.append(pair)
        taken.add(frozenset(each.id for each in pair))
        for each in pair:
            left[each.id] = left[each.id]._replace(votes=left[each.id].votes + 1)
    return pairs


def number_of_pairs(candidates: int) -> int:
    return candidates * (candidates - 1) // 2
