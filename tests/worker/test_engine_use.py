"""An agent measures how much of the last hour each engine was idle."""

from __future__ import annotations

import pytest

from callsheet.worker.engines.engine_use import EngineUseMeter


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def use(clock: Clock) -> EngineUseMeter:
    return EngineUseMeter(clock)


def test_an_engine_that_never_took_jobs_has_no_share(clock: Clock, use: EngineUseMeter) -> None:
    clock.now += 500
    assert use.idle_share() is None


def test_the_share_is_that_of_the_places_which_did_not_render(clock: Clock, use: EngineUseMeter) -> None:
    use.change(0, 2)
    clock.now += 60
    use.change(1, 2)
    clock.now += 60
    use.change(2, 2)
    clock.now += 120
    use.change(0, 2)
    # 60 + 240 of 480 seconds of two places rendered.
    assert use.idle_share() == (pytest.approx(1 - 300 / 480), pytest.approx(240))


def test_time_without_health_does_not_count_except_for_a_job_that_renders(clock: Clock, use: EngineUseMeter) -> None:
    use.change(1, 1)
    clock.now += 100
    use.change(1, 0)
    clock.now += 100
    use.change(0, 0)
    clock.now += 1000
    share, _ = use.idle_share() or (None, 0)
    assert share == pytest.approx(0)


def test_measurements_older_than_an_hour_are_dropped(clock: Clock, use: EngineUseMeter) -> None:
    use.change(1, 1)
    clock.now += 3600
    use.change(0, 1)
    clock.now += 1800
    assert use.idle_share() == (pytest.approx(0.5, abs=0.02), 3600)
    clock.now += 10 * 3600
    assert use.idle_share() == (1.0, 3600)


def test_short_jobs_are_added_up_over_the_pieces_of_the_window(clock: Clock, use: EngineUseMeter) -> None:
    use.change(0, 1)
    for _ in range(1000):
        use.change(1, 1)
        clock.now += 0.75
        use.change(0, 1)
        clock.now += 0.25
    assert use.idle_share() == (pytest.approx(0.25), pytest.approx(1000))
