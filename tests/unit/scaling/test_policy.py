"""The policy's rules, one by one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from callsheet.scaling.policy import Decision, History, Policy, PolicyError, PolicyWorker, Situation, decide

POLICY = Policy(maximum=10)
NOW = 10_000.0
# Watched for long, with nothing going on.
QUIET = History(watched_since=0.0, seen_at=NOW - 5)


def a_worker(name: str, busy: int = 0, **changes: object) -> PolicyWorker:
    worker = PolicyWorker(
        id=name,
        slots=1,
        busy=busy,
        is_draining=False,
        is_spot=True,
        started_at=0.0,
        idle_since=None if busy else NOW - 1000,
    )
    return replace(worker, **changes)  # type: ignore[arg-type]


def some(count: int, busy: int = 0, **changes: object) -> list[PolicyWorker]:
    return [a_worker(f"w{number}", 1 if number < busy else 0, **changes) for number in range(count)]


def decision_for(
    policy: Policy = POLICY,
    *,
    jobs: int = 0,
    seconds: float = 0.0,
    workers: list[PolicyWorker] | None = None,
    coming: int = 0,
    history: History = QUIET,
    unknown: str | None = None,
    places: int | None = None,
) -> Decision:
    return decide(policy, Situation(NOW, jobs, seconds, workers or [], coming, history, unknown, places))


def test_the_first_job_orders_a_worker_at_once_even_just_after_the_last_order() -> None:
    decision = decision_for(jobs=1, seconds=5, history=replace(QUIET, last_out_at=NOW - 1, last_in_at=NOW - 1))
    assert (decision.wanted, decision.cause) == (1, "first_job")
    assert decision.reason == "1 job waits (5 s of work), which needs 1 worker: 1 worker is ordered."
    assert decision.history.last_out_at == NOW


def test_a_worker_that_is_coming_is_not_ordered_twice() -> None:
    decision = decision_for(jobs=1, seconds=5, coming=1)
    assert (decision.wanted, decision.cause) == (1, "steady")


def test_no_more_workers_are_ordered_than_may_register() -> None:
    some_places = decision_for(jobs=10, seconds=600, workers=some(2, busy=2), places=1)
    assert (some_places.wanted, some_places.cause) == (3, "backlog")
    assert some_places.reason.endswith("1 worker is ordered, as many as fleet.max_workers allows.")
    none = decision_for(jobs=10, seconds=600, workers=some(2, busy=2), places=0)
    assert (none.wanted, none.cause) == (2, "at_maximum")
    assert none.reason.endswith("; the installation has as many workers as fleet.max_workers allows.")
    enough = decision_for(jobs=10, seconds=600, workers=some(2, busy=2), places=3)
    assert (enough.wanted, enough.cause) == (5, "backlog")
    assert "fleet.max_workers" not in enough.reason


def test_the_backlog_is_shared_by_as_many_workers_as_the_target_says() -> None:
    decision = decision_for(jobs=10, seconds=600, workers=some(2, busy=2))
    assert (decision.wanted, decision.cause) == (5, "backlog")
    assert decision.reason == "10 jobs wait (600 s of work), which needs 5 workers: 3 workers are ordered."


def test_no_more_workers_are_ordered_than_there_are_jobs_for() -> None:
    assert decision_for(jobs=2, seconds=7200, workers=some(1, busy=1)).wanted == 3


def test_slots_count_and_are_remembered_while_the_fleet_has_no_worker() -> None:
    decision = decision_for(jobs=9, seconds=9000, workers=[a_worker("w", 3, slots=3)])
    assert decision.wanted == 4
    assert decision_for(jobs=9, seconds=9000, history=replace(QUIET, slots=decision.history.slots)).wanted == 3


def test_orders_wait_for_the_cooldown() -> None:
    history = replace(QUIET, last_out_at=NOW - 10)
    decision = decision_for(jobs=10, seconds=600, workers=some(2, busy=2), history=history)
    assert (decision.wanted, decision.cause) == (2, "cooling")
    assert decision.history.last_out_at == NOW - 10
    assert (
        decision_for(
            jobs=10, seconds=600, workers=some(2, busy=2), history=replace(history, last_out_at=NOW - 30)
        ).wanted
        == 5
    )


def test_the_maximum_counts_draining_workers_too() -> None:
    policy = Policy(maximum=3)
    by_operator = a_worker("drained", is_draining=True, can_be_undrained=False)
    decision = decision_for(policy, jobs=50, seconds=5000, workers=[*some(1, busy=1), by_operator])
    assert decision.wanted == 2
    decision = decision_for(policy, jobs=50, seconds=5000, workers=[*some(2, busy=2), by_operator])
    assert (decision.wanted, decision.cause) == (2, "at_maximum")
    assert decision.reason.endswith("the fleet is at its maximum of 3, 1 of them draining.")


def test_a_draining_worker_takes_work_again_before_one_is_ordered() -> None:
    workers = [*some(1, busy=1), a_worker("a", is_draining=True), a_worker("b", 1, is_draining=True)]
    decision = decision_for(jobs=4, seconds=480, workers=workers, history=replace(QUIET, last_out_at=NOW - 1))
    assert decision.undrain == ("b", "a")
    assert decision.wanted == 3
    assert decision.reason.endswith("2 draining workers take work again.")


def test_the_minimum_is_kept_without_a_job_and_without_waiting() -> None:
    decision = decision_for(Policy(minimum=2, maximum=5), workers=some(1), history=replace(QUIET, last_out_at=NOW - 1))
    assert (decision.wanted, decision.cause) == (2, "below_minimum")
    assert decision.reason == "The minimum is 2 workers: 1 worker is ordered."


def test_all_workers_are_removed_after_the_idle_time() -> None:
    decision = decision_for(workers=some(3))
    assert (decision.wanted, decision.drain, decision.cause) == (0, ("w0", "w1", "w2"), "idle")
    assert decision.reason == "No worker was needed for the last 300 s: 3 workers go."
    assert decision.history.last_in_at == NOW


def test_workers_that_were_idle_at_the_busiest_moment_are_removed() -> None:
    busy_once = replace(QUIET, peaks=((NOW - 299, 2),))
    assert decision_for(workers=some(3), history=busy_once).drain == ("w0",)
    busy_earlier = replace(QUIET, peaks=((NOW - 301, 2),))
    assert len(decision_for(workers=some(3), history=busy_earlier).drain) == 3


def test_a_busy_worker_is_not_removed() -> None:
    assert decision_for(workers=some(3, busy=1)).drain == ("w1", "w2")


@pytest.mark.parametrize("moment", ["last_out_at", "last_in_at"])
def test_no_worker_is_removed_soon_after_scaling_in_either_direction(moment: str) -> None:
    assert not decision_for(workers=some(3), history=replace(QUIET, **{moment: NOW - 299})).drain
    assert decision_for(workers=some(3), history=replace(QUIET, **{moment: NOW - 300})).drain


def test_no_worker_is_removed_after_a_gap_in_observation() -> None:
    assert not decision_for(workers=some(3), history=History()).drain
    assert not decision_for(workers=some(3), history=replace(QUIET, seen_at=NOW - 3600)).drain


def test_workers_are_added_but_not_removed_while_a_part_of_the_queue_is_unknown() -> None:
    decision = decision_for(workers=some(3), unknown="Pool eu is away.")
    assert (decision.wanted, decision.drain, decision.cause) == (3, (), "unknown_queue")
    assert decision.reason == "No worker goes: Pool eu is away."
    assert decision_for(jobs=1, seconds=5, unknown="Pool eu is away.").wanted == 1


def test_workers_that_the_driver_does_not_know_count_and_stay() -> None:
    by_hand = a_worker("hand", can_be_ended=False)
    decision = decision_for(workers=[by_hand, *some(1)])
    assert (decision.wanted, decision.drain) == (1, ("w0",))
    assert decision_for(jobs=1, seconds=5, workers=[by_hand]).wanted == 1


def test_a_fleet_above_its_maximum_removes_idle_workers_first_then_the_least_busy() -> None:
    workers = [a_worker("full", 3, slots=3), a_worker("half", 1, slots=3), a_worker("idle", slots=3)]
    history = replace(QUIET, last_out_at=NOW - 1)
    assert decision_for(Policy(maximum=2), jobs=90, seconds=9000, workers=workers, history=history).drain == ("idle",)
    decision = decision_for(Policy(maximum=1), jobs=90, seconds=9000, workers=workers, history=history)
    assert decision.drain == ("idle", "half")
    assert decision.reason == "The fleet has 3 workers and its maximum is 1: 2 workers go when done."


@pytest.mark.parametrize(
    ("wanted", "on_demand_minimum", "spot_share", "expected"),
    [(0, 2, 1.0, 0), (1, 2, 1.0, 1), (5, 2, 1.0, 2), (5, 0, 0.0, 5), (5, 1, 0.5, 3), (31, 1, 0.9, 4), (1, 0, 0.5, 1)],
)
def test_on_demand_and_spot_workers_share_the_wanted_number(
    wanted: int, on_demand_minimum: int, spot_share: float, expected: int
) -> None:
    assert Policy(maximum=50, on_demand_minimum=on_demand_minimum, spot_share=spot_share).on_demand(wanted) == expected


def test_spot_workers_go_first_while_the_on_demand_ones_are_wanted() -> None:
    workers = [a_worker("demand", is_spot=False, idle_since=0.0), a_worker("spot")]
    busy_once = replace(QUIET, peaks=((NOW - 100, 1),))
    assert decision_for(Policy(maximum=5, on_demand_minimum=1), workers=workers, history=busy_once).drain == ("spot",)
    assert decision_for(Policy(maximum=5), workers=workers, history=busy_once).drain == ("demand",)


@pytest.mark.parametrize(
    ("field", "rules"),
    [
        ("maximum", {"maximum": 0}),
        ("maximum", {"maximum": 1001}),
        ("minimum", {"minimum": 2}),
        ("minimum", {"minimum": -1}),
        ("target_seconds", {"target_seconds": 0.0}),
        ("idle_seconds", {"idle_seconds": -1.0}),
        ("warm_up_seconds", {"warm_up_seconds": float("nan")}),
        ("on_demand_minimum", {"on_demand_minimum": 2}),
        ("spot_share", {"spot_share": 1.5}),
    ],
)
def test_a_rule_that_cannot_be_followed_is_refused_by_name(field: str, rules: dict[str, float]) -> None:
    with pytest.raises(PolicyError) as refused:
        Policy(**rules)  # type: ignore[arg-type]
    assert refused.value.field == field


def test_a_job_that_is_fetched_in_advance_needs_no_worker_of_its_own() -> None:
    busy = [PolicyWorker(f"w{number}", 1, 2, False, True, 0.0, None) for number in range(2)]
    decision = decide(Policy(maximum=9), Situation(100.0, 0, 0.0, busy, 0))
    assert decision.wanted == 2
