"""Each waiting job counts for one fleet."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from callsheet.scaling.queue_split import (
    UNMEASURED_SECONDS,
    FleetQueue,
    ServingFleet,
    WaitingRoute,
    split_places,
    split_queue,
)


def a_server(fleet_id: int, weight: float = 1.0, workflows: tuple[int, ...] = (1,), **changes: object) -> ServingFleet:
    provider = frozenset({str(changes.get("provider", "self_hosted"))})
    return ServingFleet(fleet_id, str(changes.get("stage", "production")), frozenset(workflows), provider, weight)


def a_route(jobs: int, workflow: int = 1, seconds: float | None = 10.0, free: int = 0) -> WaitingRoute:
    return WaitingRoute(workflow, "production", "self_hosted", jobs, seconds, free)


def test_a_fleet_has_the_queue_of_all_its_workflows() -> None:
    found = split_queue([a_route(3), a_route(2, workflow=2, seconds=None)], [a_server(7, workflows=(1, 2))])
    assert found == {7: FleetQueue(5, 30.0 + 2 * UNMEASURED_SECONDS)}


def test_queues_of_other_stages_and_providers_do_not_count() -> None:
    servers = [a_server(1, stage="staging"), a_server(2, provider="cloud"), a_server(3, workflows=(9,)), a_server(4)]
    found = split_queue([a_route(3)], servers)
    assert [found[fleet].jobs for fleet in (1, 2, 3, 4)] == [0, 0, 0, 3]


def test_free_slots_of_other_fleets_reduce_the_share() -> None:
    assert split_queue([a_route(3, free=2)], [a_server(1)])[1] == FleetQueue(1, 10.0)
    assert split_queue([a_route(3, free=5)], [a_server(1)])[1] == FleetQueue()


def test_a_single_job_counts_for_the_fleet_that_may_grow_most() -> None:
    found = split_queue([a_route(1)], [a_server(1, 2.0), a_server(2, 5.0)])
    assert (found[1].jobs, found[2].jobs) == (0, 1)


def test_a_fleet_whose_workers_cannot_run_a_workflow_gets_no_share_of_it() -> None:
    unable, able = (
        replace(a_server(1, 5.0, (1, 2)), lacked={1: "No worker has the model a."}),
        a_server(2, workflows=(1,)),
    )
    routes = [a_route(3), a_route(2, workflow=2)]
    lacking = FleetQueue(2, 20.0, unable=3, missing="No worker has the model a.")
    assert split_queue(routes, [unable, able]) == {1: lacking, 2: FleetQueue(3, 30.0)}
    assert split_queue(routes, [unable]) == {1: lacking}
    assert split_queue([a_route(0)], [unable]) == {1: FleetQueue()}
    # One worker tries all of them, whatever their number and that of their workflows.
    trying = replace(unable, lacked={1: "a", 2: "b"}, is_trial_due=True)
    assert split_queue(routes, [trying]) == {1: FleetQueue(1, 10.0, unable=5, missing="a")}


def test_fleets_share_the_remaining_places() -> None:
    assert split_places(7, {1: 3, 2: 4}) == {1: None, 2: None}
    assert split_places(6, {1: 3, 2: 9, 3: 0}) == {1: 2, 2: 4, 3: 0}
    assert split_places(0, {1: 3}) == {1: 0}
    assert split_places(-2, {1: 3, 2: 1}) == {1: 0, 2: 0}, "the limit was lowered"


@given(st.integers(0, 1000), st.lists(st.sampled_from([0.0, 1.0, 2.0, 7.0, 1000.0]), min_size=1, max_size=6))
def test_every_job_is_shared_out_once(jobs: int, weights: list[float]) -> None:
    servers = [a_server(number, weight) for number, weight in enumerate(weights)]
    found = split_queue([a_route(jobs)], servers)
    assert sum(queue.jobs for queue in found.values()) == jobs
    if any(weights):
        assert all(found[number].jobs == 0 for number, weight in enumerate(weights) if weight == 0)
