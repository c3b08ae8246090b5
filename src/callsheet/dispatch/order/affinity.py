"""Warm models: of several equally due jobs, a worker gets one whose models it has loaded. Pure.

The rule of the queue (`fairness`) orders by jobs in flight relative to the weight, then by the turn. Tenants or users
with equal values for both are equally due; normally the least recently served goes first, then the oldest job. Instead
of that, affinity chooses a job whose models the worker has loaded:

1. among the tenants that are as due as the first, at most look_ahead of them;
2. within a tenant, among its users that are as due as its first user, in the same way;
3. within a user, among the workflows that the user has jobs of.

Affinity never changes how many turns a tenant or a user gets: one that was preferred has used its turn, and is not
equally due again before the others had theirs. Newcomers start at the current turn, so they could be preferred one
after the other. Therefore no tenant or user is passed over more than max_passed times in a row: after that it is
next, warm or not. At least one of max_passed + 1 jobs of one user is the oldest. A job with k older jobs of its user
is leased after at most (max_passed + 1) * (k + 1) jobs of that user. Each control plane counts for itself, and for
each kind of worker.

Priorities, limits and the worker's assigned workflows are applied first; affinity does not change them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

# The fraction of a workflow's models that the worker would have to load. Workflows without models are absent.
Cold = Mapping[int, float]
COLDEST = 1.0


@dataclass(frozen=True, slots=True)
class AffinityLimits:
    # How many equally due tenants or users are compared; 0 turns affinity off.
    look_ahead: int = 8
    # How often in a row a tenant, user or oldest job may be passed over.
    max_passed: int = 4


class HasPasses(Protocol):
    """A contender that may be passed over, and how often in a row that has happened."""

    passed: int


Due = TypeVar("Due", bound=HasPasses)
Item = TypeVar("Item")


def reachable(due: Sequence[Due], max_passed: int) -> Sequence[Due]:
    """The equally due items, in order, that may be chosen. The list ends with the first item that was passed over
    max_passed times.
    """
    for place, each in enumerate(due):
        if each.passed >= max_passed:
            return due[: place + 1]
    return due


def warmest(items: Sequence[Item], workflows_of: Callable[[Item], Iterable[int]], cold: Cold) -> Item:
    """The first item with the least to load. items[0] is chosen if no other item is warmer, or if items[0] needs no
    models: then another item would gain nothing by going first.
    """
    first = items[0]
    best, least = first, min((cold.get(workflow_id, 0.0) for workflow_id in workflows_of(first)), default=0.0)
    for item in items[1:]:
        fraction = min((cold.get(workflow_id, COLDEST) for workflow_id in workflows_of(item)), default=COLDEST)
        if fraction < least:
            best, least = item, fraction
    return best


def pass_over(due: Sequence[Due], chosen: Due) -> None:
    """Counts one more pass for each item that was ahead of the chosen item."""
    for each in due:
        if each is chosen:
            return
        each.passed += 1


def warm_workflows(workflow_ids: Collection[int], cold: Cold) -> frozenset[int] | None:
    """The workflows of one user to prefer: the warmest workflows, and those that need no models. None if that would
    be all workflows, or if no workflow is warm.
    """
    least = min((cold[workflow_id] for workflow_id in workflow_ids if workflow_id in cold), default=COLDEST)
    if least >= COLDEST:
        return None
    chosen = frozenset(workflow_id for workflow_id in workflow_ids if cold.get(workflow_id, least) <= least)
    return None if len(chosen) == len(set(workflow_ids)) else chosen
