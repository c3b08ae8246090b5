"""Computes how many more jobs an agent requests, and of which providers. Pure functions.

A place renders one job. For each place the agent may hold one more job: while the engine renders, the agent fetches the
files of the next job or uploads the result of the last. The limit applies to each provider separately. So at most one
job waits for each place, and it is the next job of that place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from callsheet.wire.worker.protocol import MAX_ACTIVE_LEASES, max_leases


@dataclass(frozen=True, slots=True)
class WorkerOffer:
    """`capacity` is the number of jobs that render at once. `wants`: the agent wants a job of `providers`. `prefetch`:
    that job would wait for a place."""

    capacity: int
    providers: tuple[str, ...]
    wants: bool
    prefetch: bool = False


def offer_of(places: Mapping[str, int], held: Mapping[str, int], *, prefetch: bool) -> WorkerOffer:
    """The offer of an agent. `places` has each provider whose engines take jobs. `held` counts the jobs of all
    providers.
    """
    capacity, total = sum(places.values()), sum(held.values())
    if total < capacity:
        # A job for an idle engine has priority over a prefetched job for a busy one.
        free = tuple(each for each, count in places.items() if held.get(each, 0) < count)
        return WorkerOffer(capacity, free, wants=True)
    ahead: tuple[str, ...] = ()
    if total < max_leases(capacity, prefetch=prefetch):
        ahead = tuple(
            each for each, count in places.items() if held.get(each, 0) < max_leases(count, prefetch=prefetch)
        )
    return WorkerOffer(capacity, ahead or tuple(places), wants=bool(ahead), prefetch=bool(ahead))


def named_leases(tokens: Sequence[UUID]) -> list[UUID] | None:
    """The leases that a poll names: all or none. A missing lease would count as lost on its way to the worker."""
    return list(tokens) if len(tokens) <= MAX_ACTIVE_LEASES else None
