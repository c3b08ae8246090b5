"""Which leases a worker lost without knowing."""

from __future__ import annotations

from uuid import UUID

import pytest

from callsheet.fleet.protocol.authentication import LeaseOfWorker
from callsheet.fleet.protocol.unnamed_leases import (
    CONFIRM_SECONDS,
    FORGET_SECONDS,
    SILENT_SECONDS,
    MissedLeases,
    unnamed,
)

A, B = UUID(int=10), UUID(int=11)


def held(token: UUID = A, *, silent: float = 100.0, heartbeated: bool = False) -> LeaseOfWorker:
    return LeaseOfWorker(1, token, None, 100.0, heartbeated, 800.0, silent)


@pytest.mark.parametrize("heartbeated", [True, False])
@pytest.mark.parametrize(
    ("named", "silent", "is_lost"),
    [
        ([], 100.0, True),
        ([B], 100.0, True),
        ([A], 100.0, False),
        # A program that names no leases.
        (None, 100.0, False),
        ([], SILENT_SECONDS, False),
        ([], SILENT_SECONDS + 0.1, True),
    ],
)
def test_a_lease_is_lost_when_it_is_silent_and_its_worker_does_not_name_it_twice(
    named: list[UUID] | None, silent: float, is_lost: bool, heartbeated: bool
) -> None:
    missed, lease = MissedLeases(), held(silent=silent, heartbeated=heartbeated)
    assert missed.lost([lease], named, 50.0) == []
    assert missed.lost([lease], named, 50.0 + CONFIRM_SECONDS - 0.1) == []
    assert missed.lost([lease], named, 50.0 + CONFIRM_SECONDS) == ([lease] if is_lost else [])


def test_a_request_that_names_the_lease_ends_the_suspicion() -> None:
    missed, lease = MissedLeases(), held()
    assert missed.lost([lease], [], 50.0) == []
    assert missed.lost([lease], [A], 52.0) == []
    assert missed.lost([lease], [], 60.0) == []
    assert missed.lost([lease], [], 60.0 + CONFIRM_SECONDS) == [lease]


def test_requests_long_apart_do_not_confirm_each_other() -> None:
    missed, lease = MissedLeases(), held()
    assert missed.lost([lease], [], 0.0) == []
    assert missed.lost([], [], FORGET_SECONDS + 1.0) == []
    assert missed._since == {}
    assert missed.lost([lease], [], FORGET_SECONDS + 2.0) == []


def test_only_the_leases_that_are_not_named_are_lost() -> None:
    missed, both = MissedLeases(), [held(A), held(B)]
    assert missed.lost(both, [A], 1.0) == []
    assert missed.lost(both, [A], 1.0 + CONFIRM_SECONDS) == [both[1]]
    assert unnamed(both, [A]) == [both[1]]
    assert unnamed(both, None) == []
