"""The effect of votes on ELO."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from callsheet.pipelines.judge.ratings import TOGETHER, K, points, points_back, points_back_together, points_together
from callsheet.wire.pipelines.candidates import Verdict
from callsheet.wire.pipelines.pipelines import START_ELO

ratings = st.integers(min_value=0, max_value=10_000)


def test_a_vote_between_equals_changes_ratings_by_half_of_k() -> None:
    assert points(START_ELO, START_ELO) == K // 2


def test_an_unexpected_result_changes_ratings_more_than_an_expected_one() -> None:
    assert points(800, 1200) == 29
    assert points(1200, 800) == 3


@given(ratings, ratings)
def test_a_vote_changes_ratings_by_at_most_k_and_never_below_zero(winner: int, loser: int) -> None:
    moved = points(winner, loser)
    assert 0 <= moved <= min(K, loser)
    assert points_back(moved, winner + moved) == moved
    assert points_back(moved, 0) == 0


@given(ratings, ratings, ratings)
def test_a_win_against_a_stronger_loser_gains_more(winner: int, one: int, other: int) -> None:
    weaker, stronger = sorted((one, other))
    assert points(winner, weaker) <= points(winner, stronger)


@given(ratings, ratings)
def test_the_verdicts_both_and_neither_never_lower_a_rating_below_zero(one: int, other: int) -> None:
    assert points_together(Verdict.WINNER, one, other) == 0
    assert points_together(Verdict.BOTH, one, other) == TOGETHER
    lost = points_together(Verdict.NEITHER, one, other)
    assert -TOGETHER <= lost <= 0
    assert min(one + lost, other + lost) >= 0
    for change in (TOGETHER, lost):
        assert points_back_together(change, one + change, other + change) == change
        assert min(one, other) - points_back_together(change, one, other) >= 0
