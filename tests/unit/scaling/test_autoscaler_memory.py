"""What the autoscaler makes of what it sees, from one observation to the next."""

from __future__ import annotations

import json
from dataclasses import replace

from callsheet.scaling.driver import Actual
from callsheet.scaling.memory import FleetObservation, Memory, RegisteredWorker, observe, with_orders
from callsheet.scaling.policy import Decision, History, Policy

POLICY = Policy(maximum=5, warm_up_seconds=100)


def a_worker(name: str, **changes: object) -> RegisteredWorker:
    worker = RegisteredWorker(name, slots=1, busy=0, is_spot=True, registered_at=50.0, is_usable=True)
    return replace(worker, **changes)  # type: ignore[arg-type]


def exists(*names: str) -> Actual:
    return Actual(len(names), frozenset(names))


def a_decision(wanted: int, **changes: object) -> Decision:
    return replace(Decision(wanted, 0, (), (), "A test.", History()), **changes)  # type: ignore[arg-type]


def test_the_memory_is_stored_and_loaded_unchanged() -> None:
    memory = Memory(
        history=History(1.0, 2.0, 3.0, 4.0, ((5.0, 3), (6.0, 1)), 2.0),
        orders=(1.0, 2.0),
        known=("a",),
        idle_since={"a": 1.0},
        worked={"a": (7, 42.5, 1)},
        unregistered_since={"b": 2.0},
        ending=("c",),
        start_seconds=40.0,
    )
    assert Memory.from_json(json.loads(json.dumps(memory.as_json()))) == memory
    assert Memory.from_json({}) == Memory()


def test_a_new_worker_fills_the_oldest_order_and_says_how_long_a_start_takes() -> None:
    seen = observe(POLICY, Memory(orders=(10.0, 20.0)), 60.0, [a_worker("a")], exists("a"))
    assert (seen.memory.orders, seen.memory.start_seconds, seen.coming) == ((20.0,), 40.0, 1)
    assert seen.memory.next_worker_at() == 60.0
    again = observe(POLICY, seen.memory, 61.0, [a_worker("a", registered_at=60.5)], exists("a"))
    assert again.memory.orders == (20.0,), "who registers again is no new worker"


def test_jobs_that_came_and_ended_between_two_checks_count_as_load() -> None:
    def seen(memory: Memory, now: float, leases: int, seconds: float, busy: int = 0) -> FleetObservation:
        worker = a_worker("a", ended_leases=leases, ended_seconds=seconds, busy=busy)
        found = observe(POLICY, memory, now, [worker], exists("a"))
        return replace(found, memory=replace(found.memory, history=History(seen_at=now)))

    first = seen(Memory(), 100.0, 3, 90.0)
    assert first.workers[0].unseen == 0, "what it did before it was looked at is not known"
    short = seen(first.memory, 110.0, 5, 94.0)
    assert (short.workers[0].unseen, short.workers[0].idle_since) == (0.4, 110.0)
    assert seen(short.memory, 120.0, 5, 94.0).workers[0].unseen == 0
    assert seen(short.memory, 120.0, 9, 900.0).workers[0].unseen == 1, "not more than its slots"
    assert seen(short.memory, 120.0, 1, 2.0).workers[0].unseen == 0, "it has registered anew"
    busy = seen(first.memory, 110.0, 3, 90.0, busy=1)
    assert seen(busy.memory, 120.0, 4, 400.0).workers[0].unseen == 0, "the last observation saw this job"
    assert seen(busy.memory, 120.0, 5, 98.0).workers[0].unseen == 0.4


def test_an_order_that_took_too_long_is_not_waited_for() -> None:
    assert observe(POLICY, Memory(orders=(10.0, 20.0)), 115.0, [], exists()).coming == 1


def test_an_unregistered_machine_is_expected_and_later_overdue() -> None:
    seen = observe(POLICY, Memory(), 0.0, [], exists("a"))
    assert (seen.coming, seen.overdue, seen.resting) == (1, (), 0)
    late = observe(POLICY, seen.memory, 101.0, [], exists("a"))
    assert (late.coming, late.overdue, late.resting) == (0, ("a",), 1)
    assert late.to_order(POLICY, a_decision(1)) == 2, "one more than the one that does not come"


def test_an_overdue_machine_is_not_named_while_unknown_workers_are_registered() -> None:
    memory = Memory(unregistered_since={"a": 0.0})
    assert observe(POLICY, memory, 101.0, [a_worker("by hand")], exists("a")).overdue == ()


def test_workers_unknown_to_the_driver_count_and_the_driver_adds_the_rest() -> None:
    seen = observe(POLICY, Memory(), 0.0, [a_worker("by hand"), a_worker("a")], exists("a"))
    assert (seen.serving, seen.strangers) == (2, 1)
    assert seen.to_order(POLICY, a_decision(3)) == 2


def test_every_worker_belongs_to_a_driver_that_lists_no_ids() -> None:
    seen = observe(POLICY, Memory(), 0.0, [a_worker("a"), a_worker("b", is_usable=False)], Actual(2))
    assert (seen.serving, seen.strangers, seen.resting) == (1, 0, 1)


def test_silent_workers_exist_only_where_the_driver_still_has_them() -> None:
    silent = [a_worker("a", is_usable=False), a_worker("b", is_usable=False)]
    seen = observe(POLICY, Memory(), 0.0, silent, exists("a"))
    assert [worker.id for worker in seen.workers] == ["a"]
    assert (seen.serving, seen.resting) == (0, 1)


def test_only_retired_idle_workers_of_the_driver_are_done() -> None:
    drained = {"is_drained": True, "is_retired": True}
    workers = [
        a_worker("done", **drained),
        a_worker("busy", busy=1, **drained),
        a_worker("ending", is_ending=True, **drained),
        a_worker("stranger", **drained),
        a_worker("by a person", is_drained=True),
    ]
    seen = observe(POLICY, Memory(), 0.0, workers, exists("done", "busy", "ending", "by a person"))
    assert seen.done == ("done",)
    assert {worker.id: worker.can_be_undrained for worker in seen.workers} == {
        "done": True,
        "busy": True,
        "ending": False,
        "stranger": True,
        "by a person": False,
    }


def test_an_ended_worker_is_remembered_until_the_driver_no_longer_lists_it() -> None:
    memory = Memory(ending=("a", "b"))
    seen = observe(POLICY, memory, 0.0, [a_worker("a", is_drained=True, is_retired=True, is_ending=True)], exists("a"))
    assert (seen.memory.ending, seen.gone) == (("a",), ("b",))
    silent = observe(POLICY, memory, 0.0, [], exists("a"))
    assert (silent.memory.ending, silent.coming, silent.resting) == (("a",), 0, 1)


def test_an_order_is_remembered_for_each_worker_that_is_wanted_and_missing() -> None:
    seen = observe(POLICY, Memory(), 7.0, [a_worker("a")], exists("a", "b"))
    assert with_orders(seen.memory, 7.0, seen, a_decision(4)).orders == (7.0, 7.0)
    assert with_orders(seen.memory, 7.0, seen, a_decision(4, undrain=("x",))).orders == (7.0,)
    assert with_orders(seen.memory, 7.0, seen, a_decision(1)).orders == ()


def test_the_start_of_idle_time_is_kept_until_the_worker_has_a_job() -> None:
    seen = observe(POLICY, Memory(), 1.0, [a_worker("a")], exists("a"))
    seen = observe(POLICY, seen.memory, 5.0, [a_worker("a")], exists("a"))
    assert seen.workers[0].idle_since == 1.0
    seen = observe(POLICY, seen.memory, 6.0, [a_worker("a", busy=1)], exists("a"))
    assert seen.workers[0].idle_since is None
    assert observe(POLICY, seen.memory, 9.0, [a_worker("a")], exists("a")).workers[0].idle_since == 9.0


def test_only_the_next_worker_can_be_ended_if_the_driver_has_a_fixed_order() -> None:
    pods = Actual(3, frozenset({"pod-0", "pod-1", "pod-2"}), ("pod-2", "pod-1", "pod-0"))
    workers = [a_worker("pod-0"), a_worker("pod-1"), a_worker("pod-2", busy=1)]
    seen = observe(POLICY, Memory(), 0.0, workers, pods)
    assert [worker.id for worker in seen.workers if worker.can_be_ended] == ["pod-2"]
    assert (seen.strangers, seen.resting) == (0, 0), "the others are the driver's all the same"
    workers[2] = a_worker("pod-2", is_drained=True, is_retired=True)
    seen = observe(POLICY, Memory(), 0.0, workers, pods)
    assert [worker.id for worker in seen.workers if worker.can_be_ended] == ["pod-1", "pod-2"]
    assert (seen.done, seen.resting) == (("pod-2",), 1)
