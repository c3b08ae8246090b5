"""Which pairs people are asked about."""

from __future__ import annotations

from itertools import combinations
from random import Random
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from callsheet.pipelines.judge.pairs import Contender, choose_pair, choose_pairs, number_of_pairs

contender = st.builds(
    Contender,
    st.uuids(),
    st.integers(min_value=1, max_value=10_000),
    st.integers(min_value=1, max_value=3),
    st.integers(min_value=0, max_value=2000),
    st.integers(min_value=0, max_value=9),
)
contenders = st.lists(contender, max_size=12, unique_by=(lambda each: each.id, lambda each: each.number))


def of_votes(*votes: int, elo: int = 1000) -> list[Contender]:
    return [Contender(UUID(int=number), number, 1, elo, count) for number, count in enumerate(votes, start=1)]


@given(contenders, st.integers(), st.randoms(use_true_random=False))
def test_the_same_contenders_and_seed_make_the_same_pair_in_whatever_order_they_come(
    field: list[Contender], seed: int, random: Random
) -> None:
    mixed = list(field)
    random.shuffle(mixed)
    assert choose_pair(field, (), seed) == choose_pair(mixed, (), seed)


@given(contenders, st.integers())
def test_any_two_candidates_of_one_step_make_a_pair(field: list[Contender], seed: int) -> None:
    pair = choose_pair(field, (), seed)
    possible = [(one, two) for one, two in combinations(field, 2) if one.position == two.position]
    if pair is None:
        assert not possible
    else:
        assert pair in possible or pair[::-1] in possible


@given(contenders, st.integers(), st.data())
def test_a_pair_that_was_compared_does_not_come_again(field: list[Contender], seed: int, data: st.DataObject) -> None:
    every = [frozenset((one.id, two.id)) for one, two in combinations(field, 2) if one.position == two.position]
    compared = data.draw(st.sets(st.sampled_from(every))) if every else set()
    pair = choose_pair(field, compared, seed)
    if pair is None:
        assert compared == set(every)
    else:
        assert frozenset(each.id for each in pair) not in compared


@given(st.integers())
def test_the_candidates_with_the_fewest_votes_are_paired(seed: int) -> None:
    field = of_votes(4, 0, 7, 3)
    pair = choose_pair(field, (), seed)
    assert pair is not None
    assert {each.votes for each in pair} == {0, 3}


@given(st.integers())
def test_the_closest_opponent_is_chosen(seed: int) -> None:
    new = Contender(UUID(int=1), 1, 1, 1000, 0)
    close = Contender(UUID(int=2), 2, 1, 1020, 1)
    far = Contender(UUID(int=3), 3, 1, 1300, 1)
    pair = choose_pair([far, new, close], (), seed)
    assert pair is not None
    assert set(pair) == {new, close}


def test_every_candidate_is_paired_once_before_any_is_paired_twice() -> None:
    votes = dict.fromkeys(range(1, 11), 0)
    for turn in range(5):
        field = [Contender(UUID(int=number), number, 1, 1000, count) for number, count in votes.items()]
        pair = choose_pair(field, (), turn)
        assert pair is not None
        for each in pair:
            votes[each.id.int] += 1
    assert set(votes.values()) == {1}


def test_neither_side_is_favoured() -> None:
    field = of_votes(0, 1)
    left = sum(pair[0].votes == 0 for seed in range(400) if (pair := choose_pair(field, (), seed)))
    assert 150 < left < 250


@given(contenders, st.integers(), st.integers(min_value=1, max_value=8))
def test_pairs_in_advance_start_with_the_next_pair_and_none_is_there_twice(
    field: list[Contender], seed: int, max_pairs: int
) -> None:
    pairs = choose_pairs(field, (), seed, max_pairs)
    first = choose_pair(field, (), seed)
    assert [[each.id for each in pair] for pair in pairs[:1]] == ([[each.id for each in first]] if first else [])
    assert len({frozenset(each.id for each in pair) for pair in pairs}) == len(pairs)
    steps = {position: [each for each in field if each.position == position] for position in (1, 2, 3)}
    assert len(pairs) == min(max_pairs, sum(number_of_pairs(len(each)) for each in steps.values()))


def test_pairs_in_advance_ask_about_all_candidates_before_they_ask_twice() -> None:
    pairs = choose_pairs(of_votes(0, 0, 0, 0, 0, 0), (), 3, 3)
    assert {each.number for pair in pairs for each in pair} == {1, 2, 3, 4, 5, 6}
