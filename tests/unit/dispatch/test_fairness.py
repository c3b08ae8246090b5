"""The rule of whose turn it is, and that the quick way to find it finds the same."""

from __future__ import annotations

import random
from collections import Counter
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.dispatch.facts import Criteria, Lane
from callsheet.dispatch.order.fairness import Contender, Ranking, Turn
from callsheet.dispatch.order.queue_view import QueueView
from callsheet.dispatch.order.turns import Turns
from callsheet.dispatch.order.user_queues import Bound, Terms

DRAWS = 10_000
GPU = Criteria((1, 2))


def uuid(number: int) -> UUID:
    return UUID(int=number + 1)


def lane(tenant: int, user: int = 0, *, priority: int = 0, identifier: str = "", workflow: int = 1) -> Lane:
    number = ((tenant * 100 + user) * 10 + workflow) * 100 + priority + 50
    return Lane(number, workflow, "production", "self_hosted", identifier, priority, uuid(tenant), uuid(user))


class BusyQueue:
    """An view whose lanes never run dry, and workers that are all busy all the time."""

    def __init__(self, weights: dict[int, float], slots: int, users: int = 1):
        terms = {uuid(tenant): Terms(weight) for tenant, weight in weights.items()}
        self.view = QueueView(GPU, lambda tenant_id: terms[tenant_id])
        for tenant in weights:
            for user in range(users):
                self.view.arrive(lane(tenant, user), tenant)
        self.slots = slots
        self.running: list[Lane] = []
        self.random = random.Random(7)

    def draw(self, count: int = DRAWS) -> list[tuple[UUID, UUID]]:
        served = []
        for _ in range(count):
            if len(self.running) == self.slots:
                self.view.end(self.running.pop(self.random.randrange(len(self.running))))
            [(seat, one)] = self.view.draw(1)
            assert one == 1
            served.append((seat.tenant_id, seat.user_id))
            self.running += seat.lanes.values()
        return served


@pytest.mark.few_forms
@pytest.mark.parametrize("slots", [1, 30, 300])
@pytest.mark.parametrize("weights", [{0: 1.0, 1: 1.0, 2: 1.0}, {0: 3.0, 1: 1.0}, {0: 0.5, 1: 2.0, 2: 2.5}])
def test_shares_follow_the_weights(weights: dict[int, float], slots: int) -> None:
    served = Counter(tenant_id for tenant_id, _ in BusyQueue(weights, slots).draw())
    for tenant, weight in weights.items():
        assert abs(served[uuid(tenant)] / DRAWS - weight / sum(weights.values())) < 0.05


def test_users_of_a_tenant_share_alike_and_do_not_make_its_share_larger() -> None:
    busy_queue = BusyQueue({0: 1.0}, 10, users=9)
    served = Counter(user_id for _, user_id in busy_queue.draw())
    assert max(served.values()) - min(served.values()) <= DRAWS * 0.05
    terms = BusyQueue({0: 1.0, 1: 1.0}, 10, users=1)
    for user in range(1, 50):
        terms.view.arrive(lane(0, user), user)
    tenants = Counter(tenant_id for tenant_id, _ in terms.draw())
    assert abs(tenants[uuid(0)] - tenants[uuid(1)]) <= DRAWS * 0.05


@pytest.mark.parametrize("slots", [1, 8])
def test_a_new_tenant_waits_for_at_most_one_job_of_a_flood(slots: int) -> None:
    busy_queue = BusyQueue({0: 1.0, 1: 1.0}, slots)
    busy_queue.view.leave(lane(1))
    busy_queue.draw(500)
    busy_queue.view.arrive(lane(1), 10_000)
    served = [tenant_id for tenant_id, _ in busy_queue.draw(2)]
    assert uuid(1) in served


@given(st.integers(2, 20), st.integers(1, 30), st.integers(0, 1000))
def test_no_tenant_starves(tenants: int, slots: int, seed: int) -> None:
    """A tenant with nothing in flight is served before any tenant is served twice."""
    busy_queue = BusyQueue(dict.fromkeys(range(tenants), 1.0), slots)
    busy_queue.random.seed(seed)
    waited = dict.fromkeys(map(uuid, range(tenants)), 0)
    for _ in range(5 * tenants + slots):
        [(tenant_id, _)] = busy_queue.draw(1)
        in_flight = {each.tenant_id for each in busy_queue.running}
        waited = {tenant: 0 if tenant in in_flight else draws + 1 for tenant, draws in waited.items()}
        assert waited[tenant_id] == 0
        assert max(waited.values()) <= tenants


@given(st.lists(st.tuples(st.sampled_from(["serve", "end", "leave", "arrive"]), st.integers(0, 7)), max_size=80))
def test_the_first_of_a_tournament_is_the_smallest(steps: list[tuple[str, int]]) -> None:
    contenders = [Contender() for _ in range(8)]
    turn = Turn()
    ranking: Ranking[int] = Ranking()
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
        first = ranking.first()
        orders = sorted((contenders[each].order(), each) for each in range(8) if each in ranking)
        assert first == (orders[0] if orders else None)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), st.integers(-1, 1)), max_size=30), st.integers(1, 60))
def test_a_view_gives_work_to_every_worker_while_there_is_work(jobs: list[tuple[int, int, int]], workers: int) -> None:
    view = QueueView(GPU, lambda tenant_id: Terms())
    waiting = Counter(lane(tenant, user, priority=priority) for tenant, user, priority in jobs)
    for oldest, each in enumerate(waiting):
        view.arrive(each, oldest)
    given: list[int] = []
    while len(given) < workers:
        drawn = view.draw(workers - len(given))
        if not drawn:
            break
        for seat, count in drawn:
            [found] = seat.lanes.values()
            got = min(count, waiting[found])
            waiting[found] -= got
            given += [found.priority] * got
            view.undo(seat, count - got)
            if got < count:
                view.leave(found)
    assert len(given) == min(workers, len(jobs))
    # A level that has work is served before the next one.
    assert sorted(given, reverse=True) == sorted((priority for _, _, priority in jobs), reverse=True)[: len(given)]


def test_a_bound_that_is_reached_stops_its_own_jobs_and_no_others() -> None:
    terms = {uuid(0): Terms(max_running=2), uuid(1): Terms(max_running_per_user=1)}
    view = QueueView(GPU, lambda tenant_id: terms.get(tenant_id, Terms()))
    for each in (lane(0), lane(1, 0), lane(1, 1), lane(2, identifier="cloud")):
        view.arrive(each, each.lane_id)
    room = {Bound(tenant_id=uuid(0)): 2, Bound("cloud"): 3}
    room |= {Bound(tenant_id=uuid(1), user_id=uuid(user)): 1 for user in range(2)}
    drawn = {(seat.tenant_id, seat.user_id): count for seat, count in view.draw(50, room)}
    assert drawn == {(uuid(0), uuid(0)): 2, (uuid(1), uuid(0)): 1, (uuid(1), uuid(1)): 1, (uuid(2), uuid(0)): 3}
    assert view.draw(1) == []
    view.open(Bound(tenant_id=uuid(1), user_id=uuid(1)))
    assert [seat.user_id for seat, _ in view.draw(1)] == [uuid(1)]


def test_nothing_is_drawn_if_the_next_lane_has_a_limit_that_was_not_counted() -> None:
    """Or something of a lower priority would go first because of it."""
    view = QueueView(GPU, lambda tenant_id: Terms())
    for each in (lane(0, identifier="full", priority=2), lane(1, identifier="cloud", priority=1), lane(2)):
        view.arrive(each, each.lane_id)
    assert view.draw(5, {Bound("full"): 1}) == []
    # It was full, which is remembered; the next draw counts what is next.
    assert [seat.bounds for seat, _ in view.draw(1)] == [(Bound("cloud"),)]
    drawn = view.draw(5, {Bound("cloud"): 1})
    assert [(seat.tenant_id, count) for seat, count in drawn] == [(uuid(1), 1), (uuid(2), 4)]


def test_work_that_came_after_a_lane_was_seen_empty_is_not_forgotten() -> None:
    turns = Turns(lambda tenant_id: Terms())
    view = turns.view(GPU)
    turns.arrive(lane(0), 1)
    before = turns.moment
    turns.arrive(lane(0), 2)
    turns.leave([lane(0)], before)
    assert len(view.draw(1)) == 1
    turns.leave([lane(0)], turns.moment)
    assert view.draw(1) == []


def test_leases_read_from_the_database_correct_the_view() -> None:
    turns = Turns(lambda tenant_id: Terms())
    view = turns.view(GPU)
    for tenant in (0, 1):
        turns.arrive(lane(tenant), tenant)
    held = {number: lane(0) for number in range(3)}
    turns.see(held, turns.begin_reading())
    assert [seat.tenant_id for seat, _ in view.draw(3)] == [uuid(1)]
    # Ended after the look, and leased after it: neither is changed by what the look saw.
    moment = turns.begin_reading()
    turns.end(0)
    turns.start(9, lane(1))
    turns.see(held, moment)
    turns.see({1: held[1], 2: held[2], 9: lane(1)}, turns.begin_reading())
    assert [(seat.tenant_id, count) for seat, count in view.draw(2)] == [(uuid(0), 2)]


def test_tenants_without_jobs_are_forgotten() -> None:
    view = QueueView(GPU, lambda tenant_id: Terms())
    for tenant in range(100):
        view.arrive(lane(tenant), tenant)
    drawn = view.draw(100)
    for seat, _ in drawn:
        view.end(*seat.lanes.values())
    for tenant in range(100):
        view.leave(lane(tenant))
    view.arrive(lane(100), 100)
    view.draw(1)
    view.draw(1)
    view.forget_idle()
    assert view.tenants_known <= 2


def test_a_view_that_no_worker_uses_is_dropped_with_its_lanes() -> None:
    turns = Turns(lambda tenant_id: Terms())
    view, other = turns.view(GPU), turns.view(Criteria((9,)))
    turns.arrive(lane(0), 1)
    assert [each.lane_id for each in view.lanes()] == [lane(0).lane_id]
    turns.drop(view)
    assert list(turns.views) == [other]
    # Asked for again, it begins anew: what waits is read from the database.
    assert turns.view(GPU).is_stale
    turns.arrive(lane(0), 1)
    assert len(turns.view(GPU).draw(1)) == 1


@pytest.mark.parametrize("users", [(0, 0), (0, 1)])
def test_an_estimated_age_is_corrected_once_the_database_was_read(users: tuple[int, int]) -> None:
    """A notification carries no id. Two of one tenant, or of two tenants."""
    turns = Turns(lambda _: Terms())
    view = turns.view(GPU)
    older, younger = lane(users[0], 0), lane(users[1], 1)
    turns.arrive(lane(7), 1000)
    turns.leave([lane(7)], turns.moment)
    turns.arrive(older)
    for each, dispatch_id in ((older, 10), (younger, 11)):
        turns.arrive(each, dispatch_id)
    [(seat, _)] = view.draw(1)
    assert list(seat.lanes.values()) == [older]
