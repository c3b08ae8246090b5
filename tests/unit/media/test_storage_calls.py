"""Which calls of a storage count, and for how long."""

from __future__ import annotations

import asyncio

import pytest

from callsheet.media.storage.calls import WINDOW_SECONDS, CallFigures, StorageCalls
from callsheet.toolbox.clock import ManualClock
from callsheet.wire.errors import NotFound, Unavailable


def read(calls: StorageCalls, clock: ManualClock, seconds: float = 0.0, error: BaseException | None = None) -> None:
    with calls.measured("read"):
        clock.advance(seconds)
        if error is not None:
            raise error


def figures(calls: StorageCalls) -> CallFigures:
    return next(each for each in calls.figures() if each.kind == "read")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def calls(clock: ManualClock) -> StorageCalls:
    return StorageCalls(2.0, clock)


def test_only_a_storage_that_cannot_be_used_is_a_failure(calls: StorageCalls, clock: ManualClock) -> None:
    for error in (Unavailable("The object store cannot be used."), NotFound(), asyncio.CancelledError()):
        with pytest.raises(type(error)):
            read(calls, clock, error=error)
    read(calls, clock)
    assert figures(calls) == CallFigures("read", 3, 1, 3, 0, 0, "The object store cannot be used.")


def test_a_call_is_slow_beyond_the_setting_and_a_transfer_never(calls: StorageCalls, clock: ManualClock) -> None:
    for seconds in (1.9, 2.1):
        read(calls, clock, seconds)
    with calls.measured("read", is_timed=False):
        clock.advance(100)
    assert figures(calls)[1:5] == (3, 0, 2, 1)
    # The time of a part of a call.
    with calls.timed("read"):
        clock.advance(2.1)
    assert figures(calls)[1:5] == (3, 0, 3, 2)


def test_calls_count_for_five_minutes(calls: StorageCalls, clock: ManualClock) -> None:
    with pytest.raises(Unavailable):
        read(calls, clock, error=Unavailable())
    clock.advance(WINDOW_SECONDS / 2)
    read(calls, clock)
    assert figures(calls)[1:3] == (2, 1)
    clock.advance(WINDOW_SECONDS / 2)
    assert figures(calls)[1:3] == (1, 0)


def test_failures_do_not_expire_while_there_are_no_calls(calls: StorageCalls, clock: ManualClock) -> None:
    for _ in range(3):
        with pytest.raises(Unavailable):
            read(calls, clock, error=Unavailable())
    clock.advance(100 * WINDOW_SECONDS)
    assert figures(calls)[1:3] == (3, 3)
    assert figures(calls).failed_in_a_row == 3
    read(calls, clock)
    assert figures(calls)[1:3] == (1, 0)
    # The totals are those of the process.
    assert {(kind, outcome): number for kind, outcome, number in calls.totals()}["read", "failed"] == 3
