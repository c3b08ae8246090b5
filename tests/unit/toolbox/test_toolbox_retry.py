from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.toolbox.outages import backoff_seconds


@given(st.integers(1, 100_000), st.floats(0.001, 60), st.floats(0.001, 3600), st.integers())
def test_a_wait_is_between_zero_and_the_doubled_base_or_the_cap(
    attempt: int, base: float, cap: float, seed: int
) -> None:
    seconds = backoff_seconds(attempt, base, cap, Random(seed))
    assert 0 <= seconds <= cap
    if attempt < 50:
        assert seconds <= base * 2 ** (attempt - 1)


def test_the_whole_range_is_used_so_that_a_fleet_spreads_out() -> None:
    random = Random(7)
    waits = [backoff_seconds(4, 1.0, 60.0, random) for _ in range(1_000)]
    assert min(waits) < 0.5
    assert 7.5 < max(waits) <= 8.0


def test_the_same_random_gives_the_same_wait() -> None:
    assert backoff_seconds(3, 1.0, 60.0, Random(1)) == backoff_seconds(3, 1.0, 60.0, Random(1))


def test_attempts_count_from_one() -> None:
    with pytest.raises(ValueError, match="from 1"):
        backoff_seconds(0, 1.0, 60.0, Random(1))
