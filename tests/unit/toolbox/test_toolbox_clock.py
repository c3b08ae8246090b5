from datetime import UTC, datetime, timedelta, timezone

import pytest

from callsheet.toolbox.clock import Clock, ManualClock, SystemClock


def test_the_system_clock_is_aware_and_in_utc() -> None:
    clock: Clock = SystemClock()
    assert clock.now().utcoffset() == timedelta(0)
    assert clock.monotonic() <= clock.monotonic()


def test_a_manual_clock_keeps_its_time_until_it_is_advanced() -> None:
    clock = ManualClock(datetime(2026, 3, 1, tzinfo=UTC))
    assert (clock.now(), clock.monotonic()) == (clock.now(), 0.0)
    clock.advance(90)
    assert clock.now() == datetime(2026, 3, 1, 0, 1, 30, tzinfo=UTC)
    assert clock.monotonic() == 90


def test_a_manual_clock_gives_utc_whatever_zone_it_was_set_in() -> None:
    clock = ManualClock(datetime(2026, 3, 1, 2, tzinfo=timezone(timedelta(hours=2))))
    assert clock.now().isoformat() == "2026-03-01T00:00:00+00:00"


def test_a_manual_clock_refuses_naive_times_and_going_backwards() -> None:
    with pytest.raises(ValueError, match="aware"):
        ManualClock(datetime(2026, 3, 1))  # noqa: DTZ001
    with pytest.raises(ValueError, match="forwards"):
        ManualClock().advance(-1)
