"""Warm models choose only between tenants that are equally due: weights stay in force, and no tenant starves."""

from __future__ import annotations

import random
from collections import Counter
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.catalog.engines.models_to_load import cold_fractions
from callsheet.dispatch.facts import Criteria, Lane
from callsheet.dispatch.order.affinity import AffinityLimits, Cold, reachable, warm_workflows, warmest
from callsheet.dispatch.order.fairness import Contender, Ranking, Turn
from callsheet.dispatch.order.queue_view import QueueView
from callsheet.dispatch.order.user_queues import Terms, UserQueue

GPU = Criteria((1, 2, 3))
# What a worker would have to load that ran workflow 1: all of it for 2, and half for 3.
AFTER_ONE: Cold = {1: 0.0, 2: 1.0, 3: 0.5}
LIMITS = AffinityLimits(look_ahead=8, max_passed=4)


def uuid(number: int) -> UUID:
    return UUID(int=number + 1)


def lane(tenant: int, user: int = 0, workflow: int = 1, priority: int = 0, identifier: str = "") -> Lane:
    number = ((tenant * 1000 + user) * 10 + workflow) * 100 + priority + 50
    return Lane(number, workflow, "production", "self_hosted", identifier, priority, uuid(tenant), uuid(user))


def view(*lanes: Lane, weights: dict[int, float] | None = None) -> QueueView:
    terms = {uuid(tenant): Terms(weight) for tenant, weight in (weights or {}).items()}
    made = QueueView(GPU, lambda tenant_id: terms.get(tenant_id, Terms()))
    for oldest, each in enumerate(lanes, start=1):
        made.arrive(each, oldest)
    return made


def workflows(lanes: dict[int, Lane]) -> set[int]:
    return {each.workflow_id for each in lanes.values()}


def draw(of: QueueView, cold: Cold | None, limits: AffinityLimits = LIMITS) -> tuple[UserQueue, dict[int, Lane], bool]:
    """As a worker's lease does: warm where that changes something, in turn otherwise. And whether it was warm."""
    chosen = of.draw_warm(cold, limits) if cold is not None else None
    if chosen is not None:
        return (*chosen, True)
    [(seat, _)] = of.draw(1)
    return seat, seat.lanes, False


def test_the_warmest_of_a_users_workflows_is_taken() -> None:
    made = view(lane(0, workflow=2), lane(0, workflow=3), lane(0, workflow=1))
    seat, lanes, is_warm = draw(made, AFTER_ONE)
    assert (seat.tenant_id, workflows(lanes), is_warm) == (uuid(0), {1}, True)


def test_a_tenant_that_is_as_due_goes_first_if_its_models_are_loaded() -> None:
    made = view(lane(0, workflow=2), lane(1, workflow=2), lane(2, workflow=1))
    assert draw(made, AFTER_ONE)[0].tenant_id == uuid(2)
    # It had its turn, so it is not as due as the others any more.
    made.arrive(lane(2, workflow=1), 9)
    assert [draw(made, AFTER_ONE)[0].tenant_id for _ in range(2)] == [uuid(0), uuid(1)]


def test_a_user_that_is_as_due_goes_first_if_its_models_are_loaded() -> None:
    made = view(lane(0, 1, workflow=2), lane(0, 2, workflow=3), lane(0, 3, workflow=1))
    assert [draw(made, AFTER_ONE)[0].user_id for _ in range(3)] == [uuid(3), uuid(2), uuid(1)]


def test_in_flight_priority_and_limits_come_before_warm_models() -> None:
    made = view(lane(0, workflow=2), lane(1, workflow=1))
    made.start(lane(1, workflow=1))
    assert draw(made, AFTER_ONE)[0].tenant_id == uuid(0)
    made = view(lane(0, workflow=2, priority=1), lane(1, workflow=1))
    assert draw(made, AFTER_ONE)[0].tenant_id == uuid(0)
    made = view(lane(0, workflow=2, identifier="limited"), lane(1, workflow=1))
    assert made.draw_warm(AFTER_ONE, LIMITS) is None, "what is bounded goes the ordinary way"


def test_no_warm_lane_is_chosen_if_the_order_would_not_change() -> None:
    for lanes in ([], [lane(0)], [lane(0), lane(1)], [lane(0), lane(1, workflow=2)], [lane(0, workflow=2)]):
        made = view(*lanes)
        assert made.draw_warm(AFTER_ONE, LIMITS) is None
        assert made.draw_warm({}, LIMITS) is None
    made = view(lane(0, workflow=2), lane(1, workflow=1))
    assert made.draw_warm(AFTER_ONE, AffinityLimits(look_ahead=1)) is None, "no further than it looks ahead"


@given(st.integers(1, 6), st.lists(st.sampled_from([1, 2]), min_size=1, max_size=200))
def test_the_oldest_job_of_a_user_is_skipped_only_a_limited_number_of_times(max_passed: int, ran: list[int]) -> None:
    """Both workflows always have work: how often in a row only a part of the lanes is asked."""
    made, in_a_row = view(lane(0, workflow=1), lane(0, workflow=2)), 0
    for workflow in ran:
        cold = {1: 0.0, 2: 1.0} if workflow == 1 else {1: 1.0, 2: 0.0}
        _, lanes, _ = draw(made, cold, AffinityLimits(8, max_passed))
        in_a_row = in_a_row + 1 if len(lanes) == 1 else 0
        assert in_a_row <= max_passed


@given(st.integers(1, 6), st.integers(1, 12), st.integers(0, 1000))
def test_newcomers_overtake_a_tenant_no_more_often_than_allowed(max_passed: int, look_ahead: int, seed: int) -> None:
    """A tenant with a cold job, and without end new tenants with a warm one each, who are as due as it."""
    made, choice = view(lane(0, workflow=2)), random.Random(seed)
    newcomers, passed = 0, 0
    while True:
        for _ in range(choice.randrange(1, 4)):
            newcomers += 1
            made.arrive(lane(newcomers, workflow=1), newcomers + 1)
        seat, lanes, _ = draw(made, AFTER_ONE, AffinityLimits(look_ahead, max_passed))
        if seat.tenant_id == uuid(0):
            break
        for each in list(lanes.values()):
            made.leave(each)
            made.end(each)
        passed += 1
        assert passed <= max_passed


@given(st.integers(1, 6), st.integers(0, 1000))
def test_new_users_overtake_a_user_no_more_often_than_allowed(max_passed: int, seed: int) -> None:
    made, choice = view(lane(0, 0, workflow=2)), random.Random(seed)
    newcomers, passed = 0, 0
    while True:
        for _ in range(choice.randrange(1, 4)):
            newcomers += 1
            made.arrive(lane(0, newcomers, workflow=1), newcomers + 1)
        seat, lanes, _ = draw(made, AFTER_ONE, AffinityLimits(8, max_passed))
        if seat.user_id == uuid(0):
            break
        for each in list(lanes.values()):
            made.leave(each)
            made.end(each)
        passed += 1
        assert passed <= max_passed


@pytest.mark.few_forms
@pytest.mark.parametrize("slots", [1, 8, 30])
@pytest.mark.parametrize("weights", [{0: 1.0, 1: 1.0, 2: 1.0}, {0: 3.0, 1: 1.0}, {0: 0.5, 1: 2.0, 2: 2.5}])
def test_shares_follow_the_weights_whatever_models_are_warm(weights: dict[int, float], slots: int) -> None:
    """Every worker has the models of its last job loaded; tenants have different workflows, and two users each."""
    draws, choice = 4000, random.Random(7)
    lanes = [lane(tenant, user, 1 + (tenant + user) % 3) for tenant in weights for user in range(2)]
    made = view(*lanes, weights=weights)
    running: list[tuple[Lane, int]] = []
    loaded = [choice.choice([1, 2, 3]) for _ in range(slots)]
    free, served, users, warm = list(range(slots)), Counter[UUID](), Counter[tuple[UUID, UUID]](), 0
    for _ in range(draws):
        if not free:
            ended, worker = running.pop(choice.randrange(len(running)))
            made.end(ended)
            free.append(worker)
        worker = free.pop()
        cold = {workflow: float(workflow != loaded[worker]) for workflow in (1, 2, 3)}
        seat, chosen, _ = draw(made, cold)
        taken = choice.choice(list(chosen.values()))
        warm += taken.workflow_id == loaded[worker]
        loaded[worker] = taken.workflow_id
        running.append((taken, worker))
        served[seat.tenant_id] += 1
        users[seat.tenant_id, seat.user_id] += 1
    for tenant, weight in weights.items():
        assert abs(served[uuid(tenant)] / draws - weight / sum(weights.values())) < 0.05
        assert abs(users[uuid(tenant), uuid(0)] - users[uuid(tenant), uuid(1)]) <= 0.05 * draws


@given(st.lists(st.tuples(st.sampled_from(["serve", "end", "leave", "arrive"]), st.integers(0, 7)), max_size=80))
def test_equally_due_tenants_are_found_in_their_order(steps: list[tuple[str, int]]) -> None:
    contenders, turn, ranking = [Contender() for _ in range(8)], Turn(), Ranking[int]()
    for what, name in steps:
        contender = contenders[name]
        if what == "arrive" and name not in ranking:
            turn.arrive(contender, name)
            ranking.put(name, contender)
        elif what == "leave":
            ranking.remove(name)
        elif what == "end":
            contender.in_flight = max(0, contender.in_flight - 1)
            ranking.moved_up(name)
        elif what == "serve":
            turn.serve(contender)
        orders = sorted((contenders[each].order(), each) for each in range(8) if each in ranking)
        equal = [each for order, each in orders if order[:2] == orders[0][0][:2]]
        assert ranking.equally_due(3) == equal[:3]
        assert ranking.first() == (orders[0] if orders else None), "looking changes nothing"


def test_a_tenant_whose_jobs_need_no_models_is_neither_overtaken_nor_preferred() -> None:
    cold: Cold = {1: 0.0, 2: 1.0}
    of = {"warm": [1], "cold": [2], "free": [9]}
    assert warmest(["free", "warm"], of.__getitem__, cold) == "free"
    assert warmest(["cold", "free", "warm"], of.__getitem__, cold) == "warm"
    assert warmest(["cold", "free"], of.__getitem__, cold) == "cold"
    assert warm_workflows([1, 2, 9], cold) == {1, 9}
    assert warm_workflows([1, 9], cold) is None
    assert warm_workflows([2, 9], cold) is None
    assert warm_workflows([], cold) is None


def test_a_tenant_that_was_overtaken_often_enough_is_the_last_that_can_be_reached() -> None:
    contenders = [Contender(passed=number) for number in (0, 1, 4, 0)]
    assert reachable(contenders, 4) == contenders[:3]
    assert reachable(contenders, 5) == contenders


def test_the_cold_share_is_the_share_of_models_to_load() -> None:
    models = {1: frozenset("ab"), 2: frozenset("bc"), 3: frozenset("cd")}
    assert cold_fractions([1, 2, 3, 4], models, frozenset("ab")) == {1: 0.0, 2: 0.5, 3: 1.0}
    assert cold_fractions([3, 4], models, frozenset("ab")) == {}, "where nothing is warm there is nothing to prefer"
    assert cold_fractions([2, 3], models, frozenset("ab")) == {2: 0.5, 3: 1.0}, "only of what the worker may be given"
