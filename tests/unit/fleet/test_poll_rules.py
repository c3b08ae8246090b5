"""Who gets a job."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest

from callsheet.dispatch.facts import Criteria, Lease
from callsheet.fleet.protocol.authentication import LeaseOfWorker, WorkerPrincipal
from callsheet.fleet.protocol.polls import (
    capacity,
    criteria_of,
    leased_by_poll,
    load,
    reason_after_wait,
    reason_against,
)
from callsheet.jobs.lease.outcomes import StartedLease
from callsheet.wire.worker.protocol import PollRequest

WORKER = WorkerPrincipal("w", 1, "staging", ("self_hosted", "cloud"), 1, True, False, None, (3, 5))
A, B = UUID(int=10), UUID(int=11)


def poll(**fields: Any) -> PollRequest:
    return PollRequest.model_validate(fields)


def held(
    token: UUID, *, poll_id: str | None = None, seconds: float = 100.0, heartbeated: bool = False
) -> LeaseOfWorker:
    return LeaseOfWorker(1, token, poll_id, seconds, heartbeated, 900 - seconds, seconds)


EARLIER = tuple(held(UUID(int=20 + number), seconds=2 + number) for number in range(6))


def lease(token: UUID, workflow_id: int = 3) -> StartedLease:
    now = datetime.now(UTC)
    made = Lease(1, uuid4(), uuid4(), 1, token, 1, now, 900, workflow_id, "self_hosted", "effect", "w", 1, 3600)
    return StartedLease(made, uuid4(), None, {})


def test_g4_a_worker_is_given_its_workflows_its_stage_and_the_providers_it_declares() -> None:
    assert criteria_of(WORKER, poll()) == Criteria((3, 5), "staging", ("self_hosted", "cloud"))
    # In one order, because workers that may get the same share one statement.
    assert criteria_of(WORKER, poll(providers=["self_hosted", "cloud", "cloud"])).providers == ("cloud", "self_hosted")
    assert criteria_of(WORKER, poll(providers=[])).providers == ()


def test_a_poll_only_narrows_the_providers_that_were_registered() -> None:
    assert criteria_of(WORKER, poll(providers=["cloud", "replicate"])).providers == ("cloud",)
    assert criteria_of(WORKER, poll(providers=["replicate"])).providers == ()
    # Worker programs of the source design name none when they register, and their engine's when they poll.
    unnamed = WORKER._replace(providers=("self_hosted",), names_providers=False)
    assert criteria_of(unnamed, poll()).providers == ("self_hosted",)
    assert criteria_of(unnamed, poll(providers=["cloud", "replicate"])).providers == ("cloud",)


@pytest.mark.parametrize(("registered", "requested", "counts"), [(2, None, 2), (2, 1, 1), (2, 2, 2), (2, 2**31 - 1, 2)])
def test_a_poll_only_narrows_the_capacity_that_was_registered(
    registered: int, requested: int | None, counts: int
) -> None:
    assert capacity(WORKER._replace(max_concurrency=registered), poll(max_concurrency=requested)) == counts


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"is_draining": True}, "draining"),
        ({"is_approved": False}, "not_approved"),
        ({"is_approved": False, "is_draining": True}, "draining"),
        ({"workflow_ids": ()}, "no_workflows"),
    ],
)
def test_a_worker_that_may_not_get_jobs_gets_the_reason_at_any_load(
    changes: dict[str, Any], reason: str | None
) -> None:
    worker = WORKER._replace(**changes)
    assert reason_against(worker, criteria_of(worker, poll())) == reason


@pytest.mark.parametrize(("reported", "known", "counts"), [(None, 0, 0), (2, 1, 2), (0, 3, 3), (1, 1, 1)])
def test_the_load_is_the_larger_of_known_and_reported_load(reported: int | None, known: int, counts: int) -> None:
    assert load(poll(current_load=reported), known) == counts


@pytest.mark.parametrize(
    ("changes", "request_", "reason"),
    [
        ({"held": (held(A),)}, {}, None),
        ({"held": (held(A, seconds=1), held(B, seconds=2))}, {}, "at_capacity"),
        ({"held": (held(A, seconds=2), held(B, seconds=1))}, {}, None),
        ({"held": (held(A, seconds=1), held(B, seconds=2)), "max_concurrency": 2}, {"max_concurrency": 2}, None),
        ({"held": (held(A, seconds=1), held(B, seconds=2))}, {"max_concurrency": 2}, "at_capacity"),
        ({"held": (held(A, seconds=1), held(B, seconds=2))}, {"prefetch": True}, None),
        ({"held": (held(A, seconds=1), *EARLIER[:1])}, {"prefetch": True}, None),
        ({"held": (held(A, seconds=1), *EARLIER[:2])}, {"prefetch": True}, "at_capacity"),
        # One ahead for each place.
        ({"held": (held(A, seconds=1), *EARLIER[:5]), "max_concurrency": 3}, {"prefetch": True}, None),
        ({"held": (held(A, seconds=1), *EARLIER), "max_concurrency": 3}, {"prefetch": True}, "at_capacity"),
        ({"held": (held(B, seconds=2),)}, {}, "at_capacity"),
        # No lease follows a drain: what is leased came before it, and is the worker's to finish.
        ({"held": (held(A),), "is_draining": True}, {}, None),
        ({"held": (held(A),), "workflow_ids": (5,)}, {}, "no_workflows"),
    ],
)
def test_a_worker_is_checked_again_after_a_wait(
    changes: dict[str, Any], request_: dict[str, Any], reason: str | None
) -> None:
    assert reason_after_wait(WORKER._replace(**changes), poll(**request_), lease(A)) == reason


def test_a_repeated_poll_finds_its_lease() -> None:
    leases = (held(A, poll_id="p-1"), held(B))
    assert leased_by_poll(leases, "p-1") == leases[0]
    assert leased_by_poll(leases, "p-2") is None
    assert leased_by_poll(leases, None) is None
