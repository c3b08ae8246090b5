"""The workers that could take a job now, in one statement for any number of routes."""

from __future__ import annotations

import pytest

from callsheet.fleet.fleets.capacity import RouteCapacity
from callsheet.fleet.room import FleetRoom
from callsheet.wire.fleet import CreateFleetRequest, Fleet, UpdateFleetRequest
from tests.support.http.fleet_api import join, registry
from tests.support.jobs.core import Core, Member

NO_CAPACITY = RouteCapacity(0, 0, 0, 0, False)


@pytest.fixture
def room(core: Core) -> FleetRoom:
    return registry(core.databases, core.room.leases)


async def slug_of(core: Core, workflow: int) -> str:
    [row] = await core.rows(core.databases.central, "SELECT slug FROM workflows WHERE id = $1", workflow)
    return str(row["slug"])


async def new_fleet(core: Core, room: FleetRoom, slug: str = "gpu", **changes: object) -> Fleet:
    workflows = [await slug_of(core, core.workflow)]
    return await room.fleets.create(CreateFleetRequest(slug=slug, workflow_slugs=workflows, **changes), "operator")


async def enlist(room: FleetRoom, worker_id: str, fleet: Fleet, **changes: object) -> None:
    await join(room, worker_id, fleet_slug=fleet.slug, stage=fleet.stage, **changes)


async def only(core: Core, room: FleetRoom, stage: str = "production", provider: str = "self_hosted") -> RouteCapacity:
    route = (core.workflow, stage, provider)
    found = await room.capacity.of([route, route])
    assert found.keys() == {route}
    return found[route]


async def test_an_empty_list_of_routes_needs_no_query_and_an_unknown_route_has_no_workers(
    core: Core, room: FleetRoom
) -> None:
    assert await room.capacity.of([]) == {}
    assert await room.capacity.of([(999_999, "production", "self_hosted")]) == {
        (999_999, "production", "self_hosted"): NO_CAPACITY
    }


async def test_workers_of_fleets_and_those_with_their_own_workflows_count(core: Core, room: FleetRoom) -> None:
    await enlist(room, "fleet-1", await new_fleet(core, room), max_concurrency=2)
    await join(room, "own-1", await slug_of(core, core.workflow), max_concurrency=3)
    assert await only(core, room) == RouteCapacity(2, 5, 0, 0, False)


async def test_only_workers_of_the_stage_and_the_provider_count(core: Core, room: FleetRoom) -> None:
    slug, other = await slug_of(core, core.workflow), await slug_of(core, await core.add_workflow())
    await join(room, "staging", slug, stage="staging")
    await join(room, "cloud", slug, providers=["cloud"])
    await join(room, "elsewhere", other)
    assert await only(core, room) == NO_CAPACITY
    assert (await only(core, room, stage="staging")).live_workers == 1
    assert (await only(core, room, provider="cloud")).live_workers == 1
    assert await only(core, room, stage="staging", provider="cloud") == NO_CAPACITY


async def test_workers_that_are_silent_draining_not_approved_or_revoked_do_not_count(
    core: Core, room: FleetRoom
) -> None:
    slug = await slug_of(core, core.workflow)
    for worker_id in ("silent", "draining", "new", "revoked", "well"):
        await join(room, worker_id, slug)
    central = core.databases.central
    await core.rows(
        central, "UPDATE comfyui_workers SET last_seen_at = now() - interval '91 s' WHERE worker_id = 'silent'"
    )
    await core.rows(central, "UPDATE comfyui_workers SET is_approved = false WHERE worker_id = 'new'")
    await room.workers.drain("draining", "operator")
    await room.workers.revoke("revoked", "operator")
    assert await only(core, room) == RouteCapacity(1, 1, 0, 1, False)


async def test_leases_of_workers_are_counted(core: Core, room: FleetRoom, ann: Member) -> None:
    await join(room, "gpu-1", await slug_of(core, core.workflow), max_concurrency=2)
    await core.submit(ann)
    await core.start("gpu-1")
    assert await only(core, room) == RouteCapacity(1, 2, 1, 0, False)


async def test_a_job_that_is_fetched_ahead_takes_no_slot_of_another_worker(
    core: Core, room: FleetRoom, ann: Member
) -> None:
    for worker_id in ("ahead", "idle"):
        await join(room, worker_id, await slug_of(core, core.workflow))
    for _ in range(2):
        await core.submit(ann)
        await core.start("ahead")
    assert await only(core, room) == RouteCapacity(2, 2, 1, 0, False)


async def test_a_fleet_that_wants_more_workers_than_live_is_scaling_up(core: Core, room: FleetRoom) -> None:
    fleet = await new_fleet(core, room, desired_workers=1)
    assert (await only(core, room)).scaling_up
    assert not (await only(core, room, stage="staging")).scaling_up
    await enlist(room, "gpu-1", fleet)
    assert await only(core, room) == RouteCapacity(1, 1, 0, 0, False)
    await room.workers.drain("gpu-1", "operator")
    assert await only(core, room) == RouteCapacity(0, 0, 0, 1, True)
    await room.fleets.update(fleet.id, UpdateFleetRequest(desired_workers=None), "operator")
    assert not (await only(core, room)).scaling_up
    await room.fleets.update(fleet.id, UpdateFleetRequest(desired_workers=5, is_active=False), "operator")
    assert await only(core, room) == NO_CAPACITY


async def test_the_capacity_of_many_routes_is_counted_for_each_of_them(core: Core, room: FleetRoom) -> None:
    workflows = [core.workflow, await core.add_workflow(), await core.add_workflow()]
    for number, workflow in enumerate(workflows):
        for index in range(number):
            await join(room, f"gpu-{number}-{index}", await slug_of(core, workflow))
    routes = [(workflow, "production", "self_hosted") for workflow in workflows]
    found = await room.capacity.of(routes)
    assert [found[route].live_workers for route in routes] == [0, 1, 2]


async def test_a_silent_worker_with_a_valid_lease_counts_with_its_used_slots(
    core: Core, room: FleetRoom, ann: Member
) -> None:
    fleet = await new_fleet(core, room, desired_workers=1)
    await enlist(room, "gpu-1", fleet, max_concurrency=2)
    await core.submit(ann)
    started = await core.start("gpu-1")
    await core.rows(core.databases.central, "UPDATE comfyui_workers SET last_seen_at = now() - interval '91 s'")
    assert await only(core, room) == RouteCapacity(1, 1, 1, 0, False)
    await core.expire_lease(started.lease.dispatch_id)
    assert await only(core, room) == RouteCapacity(0, 0, 0, 0, True)
