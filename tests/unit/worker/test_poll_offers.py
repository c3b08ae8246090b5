"""An agent asks for a job for each free place, and for one ahead of each place, of each provider by itself."""

from __future__ import annotations

from collections import Counter
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.wire.worker.protocol import MAX_ACTIVE_LEASES, PollRequest, max_leases
from callsheet.worker.agent.plane import named_leases
from callsheet.worker.agent.polls import WorkerOffer, offer_of

ONE = {"self_hosted": 1}
THREE = {"self_hosted": 3}
MIXED = {"self_hosted": 2, "cloud": 1}


@pytest.mark.parametrize(
    ("slots", "held", "expected"),
    [
        (ONE, {}, WorkerOffer(1, ("self_hosted",), wants=True)),
        (ONE, {"self_hosted": 1}, WorkerOffer(1, ("self_hosted",), wants=True, prefetch=True)),
        (ONE, {"self_hosted": 2}, WorkerOffer(1, ("self_hosted",), wants=False)),
        (THREE, {"self_hosted": 2}, WorkerOffer(3, ("self_hosted",), wants=True)),
        (THREE, {"self_hosted": 5}, WorkerOffer(3, ("self_hosted",), wants=True, prefetch=True)),
        (THREE, {"self_hosted": 6}, WorkerOffer(3, ("self_hosted",), wants=False)),
        # Two engines fell out: what was fetched ahead for them is more than the third may hold.
        (ONE, {"self_hosted": 6}, WorkerOffer(1, ("self_hosted",), wants=False)),
        (MIXED, {"self_hosted": 2}, WorkerOffer(3, ("cloud",), wants=True)),
        (MIXED, {"self_hosted": 3}, WorkerOffer(3, ("self_hosted", "cloud"), wants=True, prefetch=True)),
        (MIXED, {"self_hosted": 4}, WorkerOffer(3, ("cloud",), wants=True, prefetch=True)),
        # Jobs of an engine that is away are held, too.
        (ONE, {"cloud": 1}, WorkerOffer(1, ("self_hosted",), wants=True, prefetch=True)),
    ],
)
def test_the_offer_of_a_poll_follows_from_free_places(
    slots: dict[str, int], held: dict[str, int], expected: WorkerOffer
) -> None:
    assert offer_of(slots, held, prefetch=True) == expected


@pytest.mark.parametrize(("held", "wants"), [(2, True), (3, False)])
def test_without_prefetch_no_job_waits_for_a_place(held: int, wants: bool) -> None:
    assert offer_of(THREE, {"self_hosted": held}, prefetch=False) == WorkerOffer(3, ("self_hosted",), wants=wants)


@given(
    st.dictionaries(st.sampled_from("abc"), st.integers(1, 4), min_size=1),
    st.booleans(),
    st.lists(st.integers(0, 11), max_size=60),
)
def test_no_more_jobs_wait_for_a_providers_engines_than_these_have_places(
    slots: dict[str, int], prefetch: bool, choices: list[int]
) -> None:
    """The control plane gives a job of any provider that was named; in between, jobs end."""
    held: Counter[str] = Counter()
    for choice in choices:
        offer = offer_of(slots, held, prefetch=prefetch)
        if offer.wants and choice % 4:
            assert offer.prefetch == (held.total() >= offer.capacity)
            held[offer.providers[choice % len(offer.providers)]] += 1
        elif held.total():
            held[sorted(held.elements())[choice % held.total()]] -= 1
        assert held.total() <= max_leases(offer.capacity, prefetch=prefetch)
        for provider, count in slots.items():
            assert held[provider] <= max_leases(count, prefetch=prefetch)


@pytest.mark.parametrize("beyond", [0, 1])
def test_a_poll_names_all_leases_or_none(beyond: int) -> None:
    tokens = [uuid4() for _ in range(MAX_ACTIVE_LEASES + beyond)]
    assert PollRequest(active_leases=named_leases(tokens)).active_leases == (None if beyond else tokens)
