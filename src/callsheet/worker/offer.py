"""What an agent asks for: how many jobs more, of which providers. Pure: places and jobs in, an offer out.

A place renders one job. For each place the agent may hold one job more: the files of the next are fetched, or the
result of the last is uploaded, while the engine renders. That counts for each provider by itself, so that no more jobs
wait for its engines than these have places, and each waiting job is the next of some place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from callsheet.wire.worker import MOST_ACTIVE_LEASES, most_leases


@dataclass(frozen=True, slots=True)
class Offer:
    """`capacity` jobs render at once. `wants` says whether a job of `providers` is wanted at all, `prefetch` whether
    it would have to wait for a place."""

    capacity: int
    providers: tuple[str, ...]
    wants: bool
    prefetch: bool = False


def offer_of(places: Mapping[str, int], held: Mapping[str, int], *, prefetch: bool) -> Offer:
    """`places` of each provider whose engines take jobs; `held` are the jobs of each, of others too."""
    capacity, total = sum(places.values()), sum(held.values())
    if total < capacity:
        # An idle engine comes before a next job for a busy one.
        free = tuple(each for each, count in places.items() if held.get(each, 0) < count)
        return Offer(capacity, free, wants=True)
    ahead: tuple[str, ...] = ()
    if total < most_leases(capacity, prefetch=prefetch):
        ahead = tuple(
            each for each, count in places.items() if held.get(each, 0) < most_leases(count, prefetch=prefetch)
        )
    return Offer(capacity, ahead or tuple(places), wants=bool(ahead), prefetch=bool(ahead))


def named_leases(tokens: Sequence[UUID]) -> list[UUID] | None:
    """As a poll names them: all or none. One that is missing would count as lost on its way to the worker."""
    return list(tokens) if len(tokens) <= MOST_ACTIVE_LEASES else None
