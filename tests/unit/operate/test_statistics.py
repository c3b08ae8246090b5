"""Charts: quantiles of histograms, steps without gaps, and from when on jobs are counted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from statistics import quantiles

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.operate.statistics.histogram import BUCKETS, GROWTH, MIN_SECONDS, quantile
from callsheet.operate.statistics.keeper import OLDEST, CountingProgress, first_minute
from callsheet.operate.statistics.series import FinishedRow, FleetSampleRow, QueueRow, points, step_starts

NOW = datetime(2026, 3, 4, 12, 34, 56, 789, tzinfo=UTC)


def counts_of(durations: list[float]) -> list[int]:
    counts = [0] * BUCKETS
    for seconds in durations:
        bucket = 0
        while bucket < BUCKETS - 1 and MIN_SECONDS * GROWTH ** (bucket + 1) <= seconds:
            bucket += 1
        counts[bucket] += 1
    return counts


@given(st.lists(st.floats(0.05, 60_000), min_size=20, max_size=200))
def test_a_quantile_is_right_within_its_bucket(durations: list[float]) -> None:
    counts = counts_of(durations)
    below, above = min(durations) / GROWTH, max(durations) * GROWTH
    for share in (0.5, 0.95):
        found = quantile(counts, share)
        assert found is not None
        assert below <= found <= above
        # As many durations are below it as the share says, but for those of its own bucket.
        certainly_below = sum(1 for seconds in durations if seconds < found / GROWTH)
        certainly_above = sum(1 for seconds in durations if seconds > found * GROWTH)
        assert certainly_below <= share * len(durations)
        assert certainly_above <= (1 - share) * len(durations)


def test_quantiles_of_many_durations_are_near_the_exact_ones() -> None:
    durations = [1 + number / 100 for number in range(10_000)]
    exact = quantiles(durations, n=100)
    for share in (0.5, 0.95):
        found = quantile(counts_of(durations), share)
        assert found == pytest.approx(exact[round(share * 100) - 1], rel=0.07)


def test_a_histogram_without_durations_has_no_quantile() -> None:
    assert quantile([0] * BUCKETS, 0.5) is None


def test_steps_start_at_whole_minutes_and_the_last_one_has_the_present() -> None:
    starts = step_starts(NOW, 600, 144)
    assert len(starts) == 144
    assert starts[-1] == datetime(2026, 3, 4, 12, 30, tzinfo=UTC)
    assert {after - before for before, after in pairwise(starts)} == {timedelta(minutes=10)}


def test_points_have_no_gaps_and_a_missing_sample_differs_from_an_empty_queue() -> None:
    starts = step_starts(NOW, 60, 4)
    ones = [0] * BUCKETS
    ones[10] = 4
    found = points(
        starts,
        [FinishedRow(starts[1], 4, 1, 0, 0, ones, ones)],
        [QueueRow(starts[1], 7.0, 2.0)],
        [FleetSampleRow(at, 1.0, 2.0, 0.0, 3.0, 1.0, 5.0) for at in starts[1:3]],
    )
    assert [point.at for point in found] == starts
    assert [(point.completed, point.failed) for point in found] == [(0, 0), (4, 1), (0, 0), (0, 0)]
    assert [(point.queued, point.running) for point in found] == [(None, None), (7, 2), (0, 0), (None, None)]
    assert [point.tokens_held for point in found] == [None, 5, 5, None]
    assert found[1].wait_p50_seconds == pytest.approx(MIN_SECONDS * GROWTH**10.5)
    assert found[2].wait_p50_seconds is None


@pytest.mark.parametrize(
    ("counted_until", "first_end", "expected"),
    [
        # The last minutes are counted again: an end may be committed late.
        (NOW, None, datetime(2026, 3, 4, 12, 31, tzinfo=UTC)),
        # All control planes were away.
        (NOW - timedelta(hours=5), None, datetime(2026, 3, 4, 7, 31, tzinfo=UTC)),
        # The first time on an installation with a history, and without one.
        (None, NOW - timedelta(days=2), datetime(2026, 3, 2, 12, 31, tzinfo=UTC)),
        (None, None, datetime(2026, 3, 4, 12, 31, tzinfo=UTC)),
        (None, NOW - timedelta(days=200), (NOW - OLDEST - timedelta(minutes=3)).replace(second=0, microsecond=0)),
        # A clock that was set back.
        (NOW + timedelta(hours=1), None, datetime(2026, 3, 4, 12, 31, tzinfo=UTC)),
    ],
)
def test_counting_continues_where_it_ended(
    counted_until: datetime | None, first_end: datetime | None, expected: datetime
) -> None:
    assert first_minute(CountingProgress(NOW, counted_until, first_end)) == expected
