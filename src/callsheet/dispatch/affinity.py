"""Warm models: which of several jobs that are equally due a worker is given. Pure.

The rule of the queue (`fairness`) says whose turn it is by what is in flight relative to the weight, and by the turn.
Those for whom both are equal are equally due; who was served least recently and who has the oldest job only decide
between them. There a worker is given a job whose models it has loaded:

1. of the tenants that are as due as the first, look_ahead of them at most;
2. within a tenant, of its users that are as due as its first, in the same way;
3. within a user, of the workflows that the user has jobs of.

So affinity never changes how many turns a tenant or a user has: whoever is preferred has used its turn, and is not
equally due again before the others had theirs. Newcomers start at the present turn, and could be preferred one after
the other. That is why nobody is passed over more than most_passed times in a row: then it is its turn, warm or not; and
of most_passed + 1 jobs of one user at least one is the oldest. A job with k older ones of its user is thus leased after
(most_passed + 1) * (k + 1) jobs of that user at most. Each control plane counts for itself, and for each kind of
worker.

Priorities, limits and which workflows a worker may be given come before all this and are not touched by it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

# By workflow: the share of its models that the worker would have to load, 0 to 1. Those without models are left out.
Cold = Mapping[int, float]
COLDEST = 1.0


@dataclass(frozen=True, slots=True)
class Limits:
    # How many that are equally due are looked at; 0: warm models do not count.
    look_ahead: int = 8
    # How often in a row one of them may be passed over.
    most_passed: int = 4


class Passed(Protocol):
    """Somebody who may be passed over, and how often in a row that has happened."""

    passed: int


Due = TypeVar("Due", bound=Passed)
Item = TypeVar("Item")


def reachable(due: Sequence[Due], most_passed: int) -> Sequence[Due]:
    """Who may be chosen, of those who are equally due, in their order: nobody behind one that was passed over often
    enough."""
    for place, each in enumerate(due):
        if each.passed >= most_passed:
            return due[: place + 1]
    return due


def warmest(items: Sequence[Item], workflows_of: Callable[[Item], Iterable[int]], cold: Cold) -> Item:
    """The first of those with the least to load. The very first stays where nothing else is warmer, and where it needs
    no models: others would gain nothing by going before it."""
    first = items[0]
    best, least = first, min((cold.get(workflow_id, 0.0) for workflow_id in workflows_of(first)), default=0.0)
    for item in items[1:]:
        share = min((cold.get(workflow_id, COLDEST) for workflow_id in workflows_of(item)), default=COLDEST)
        if share < least:
            best, least = item, share
    return best


def pass_over(due: Sequence[Due], chosen: Due) -> None:
    """Counts who stood before the chosen one."""
    for each in due:
        if each is chosen:
            return
        each.passed += 1


def warm_workflows(workflow_ids: Collection[int], cold: Cold) -> frozenset[int] | None:
    """Of those that one user has jobs of, the ones to be preferred: the warmest, and those that need no models. None
    where that would be all, or nothing is warm."""
    least = min((cold[workflow_id] for workflow_id in workflow_ids if workflow_id in cold), default=COLDEST)
    if least >= COLDEST:
        return None
    chosen = frozenset(workflow_id for workflow_id in workflow_ids if cold.get(workflow_id, least) <= least)
    return None if len(chosen) == len(set(workflow_ids)) else chosen
