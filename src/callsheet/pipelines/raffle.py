"""Which of the eligible parents of a step gets the next child, however many there are.

Few are read, and the draw falls on one of their tickets. Of many, numbers are drawn until one belongs to a candidate: a
step of 100,000 parents costs as little as one of a hundred.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from callsheet.pipelines.selection import Draw, first_called
from callsheet.plumbing.sql import Connection, statements


class EligibleParents(NamedTuple):
    """In the order they were made; None where there are none."""

    numbers: list[int] | None
    elos: list[int] | None


class ParentBounds(NamedTuple):
    first: int | None
    last: int | None
    highest: int | None


class CalledParent(NamedTuple):
    number: int
    elo: int


SQL = statements("callsheet.pipelines", "loop_statements.sql")
# Half a millisecond to read; and so many that numbers are called in vain less than 200 times in a run of 100,000.
FEW = 500
# In one statement, and how many of these before all are read after all: a candidate that has a hundred times the points
# of all others, or is one of few in a very large run, is hardly ever called.
CALLS, ROUNDS = 64, 8
ALL = 2**31 - 1


async def draw_parent(connection: Connection, names: dict[str, Any], draw: Draw, few: int = FEW) -> int | None:
    """The number of the one the draw falls on, of the step that `names` say; none where no candidate is eligible."""
    found = await SQL["eligible_parents"].row(connection, EligibleParents, **names, most=few + 1)
    if found is None or not found.numbers or len(found.numbers) <= few:
        return drawn(draw, found)
    bounds = await SQL["bounds_of_parents"].row(connection, ParentBounds, **names)
    if bounds is None or bounds.first is None or bounds.last is None or bounds.highest is None:
        return None
    for _ in range(ROUNDS):
        calls = draw.calls(bounds.first, bounds.last, bounds.highest, CALLS)
        numbers = [call.number for call in calls]
        rows = await SQL["called_parents"].rows(connection, CalledParent, **names, numbers=numbers)
        number = first_called(calls, {row.number: row.elo for row in rows})
        if number is not None:
            return number
    return drawn(draw, await SQL["eligible_parents"].row(connection, EligibleParents, **names, most=ALL))


def drawn(draw: Draw, parents: EligibleParents | None) -> int | None:
    if parents is None or not parents.numbers or not parents.elos:
        return None
    return parents.numbers[draw.parent(parents.elos)]
