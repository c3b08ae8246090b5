"""Chooses the eligible parent of a step that gets the next child, for any number of parents.

Each parent has as many tickets as it has points of ELO. Up to `FEW` parents are read, and one of their tickets is
drawn. For more parents, rejection sampling draws numbers until one is accepted: a choice among 100,000 parents costs as
little as one among a hundred.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from callsheet.pipelines.run.selection import Draw, first_accepted
from callsheet.plumbing.database.sql import Connection, statements


class EligibleParents(NamedTuple):
    """The eligible parents in the order of creation. The fields are None if there are none."""

    numbers: list[int] | None
    elos: list[int] | None


class ParentBounds(NamedTuple):
    first: int | None
    last: int | None
    highest: int | None


class SampledParent(NamedTuple):
    number: int
    elo: int


SQL = statements("callsheet.pipelines.run", "loop_statements.sql")
# Reading this many parents takes half a millisecond. In a run of 100,000 candidates, all samples of a choice are
# rejected less than 200 times.
FEW = 500
# The number of samples in one statement, and the number of such statements before all parents are read. A candidate
# that has a hundred times the points of all others, or is one of few in a very large run, is hardly ever sampled.
SAMPLES, ROUNDS = 64, 8
ALL = 2**31 - 1


async def draw_parent(connection: Connection, names: dict[str, Any], draw: Draw, few: int = FEW) -> int | None:
    """The number of the candidate that the draw chooses, in the step that `names` describes. None if no candidate is
    eligible.
    """
    found = await SQL["eligible_parents"].row(connection, EligibleParents, **names, max_rows=few + 1)
    if found is None or not found.numbers or len(found.numbers) <= few:
        return draw_from(draw, found)
    bounds = await SQL["bounds_of_parents"].row(connection, ParentBounds, **names)
    if bounds is None or bounds.first is None or bounds.last is None or bounds.highest is None:
        return None
    for _ in range(ROUNDS):
        samples = draw.samples(bounds.first, bounds.last, bounds.highest, SAMPLES)
        numbers = [sample.number for sample in samples]
        rows = await SQL["sampled_parents"].rows(connection, SampledParent, **names, numbers=numbers)
        number = first_accepted(samples, {row.number: row.elo for row in rows})
        if number is not None:
            return number
    return draw_from(draw, await SQL["eligible_parents"].row(connection, EligibleParents, **names, max_rows=ALL))


def draw_from(draw: Draw, parents: EligibleParents | None) -> int | None:
    if parents is None or not parents.numbers or not parents.elos:
        return None
    return parents.numbers[draw.parent(parents.elos)]
