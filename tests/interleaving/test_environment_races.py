"""A workflow changes while a worker with a new environment registers: the second transaction sees the first."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from callsheet.catalog.engines.environments import forget_unused
from callsheet.catalog.room import CatalogRoom
from callsheet.fleet.room import FleetRoom
from callsheet.media.storage import LocalStorage
from callsheet.wire.catalog import CreateWorkflow, UpdateWorkflow
from callsheet.wire.worker.environment import Environment
from tests.support.http.fleet_api import bearer, join, registry
from tests.support.jobs.race import Race
from tests.support.jobs.race_control import open_transaction, start_blocked
from tests.support.rooms import catalog_room

LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('callsheet environments', 0))"
GRAPH = {"2": {"class_type": "SaveImage", "inputs": {"images": "none"}}}
BARE = Environment(node_classes=["SaveImage"], models=[])
STRICT = UpdateWorkflow.model_validate({"requirements": {"node_classes": ["Extra"]}})


@dataclass(slots=True)
class CatalogAndFleet:
    """The catalog of one control plane and the registry of workers of another."""

    race: Race
    catalog: CatalogRoom
    fleet: FleetRoom
    workflow: int

    async def may_run(self, token: str) -> bool:
        return self.workflow in (await self.fleet.authentication.of(bearer(token), for_poll=True)).workflow_ids


@pytest.fixture
async def catalog_and_fleet(race: Race, tmp_path: Path) -> AsyncIterator[CatalogAndFleet]:
    """A catalog with one workflow, and a registry of workers."""
    storage = LocalStorage(
        tmp_path, public_url="http://localhost", secret=b"s" * 32, url_seconds=900, max_upload_bytes=1_000_000
    )
    catalog = catalog_room(race.one.databases, storage, 1_000_000)
    request = CreateWorkflow(slug="raced", name="Raced", graph=GRAPH, output_node_id="2")
    workflow = await catalog.workflows.create(request, "operator")
    yield CatalogAndFleet(race, catalog, registry(race.two.databases, race.two.room.leases), workflow.id)
    await storage.close()


async def test_a_registration_and_a_workflow_change_see_each_other_in_either_order(
    catalog_and_fleet: CatalogAndFleet,
) -> None:
    async with open_transaction(catalog_and_fleet.race.central, LOCK):
        tasks = await start_blocked(
            catalog_and_fleet.race.central,
            join(catalog_and_fleet.fleet, "gpu-1", "raced", environment=BARE),
            catalog_and_fleet.catalog.workflows.update("raced", STRICT, "operator"),
        )
    joined, _ = [await task for task in tasks]
    assert not await catalog_and_fleet.may_run(joined.token), "the change came second and found the new environment"
    loose = UpdateWorkflow.model_validate({"requirements": {}})
    await catalog_and_fleet.catalog.workflows.update("raced", loose, "operator")
    assert await catalog_and_fleet.may_run(joined.token)
    other = Environment(node_classes=["SaveImage", "Other"])
    async with open_transaction(catalog_and_fleet.race.central, LOCK):
        tasks = await start_blocked(
            catalog_and_fleet.race.central,
            catalog_and_fleet.catalog.workflows.update("raced", STRICT, "operator"),
            join(catalog_and_fleet.fleet, "gpu-2", "raced", environment=other),
        )
    _, joined = [await task for task in tasks]
    assert not await catalog_and_fleet.may_run(joined.token), "the worker came second and found the changed workflow"


async def test_an_environment_that_a_worker_is_about_to_use_is_not_deleted(catalog_and_fleet: CatalogAndFleet) -> None:
    worker = await join(catalog_and_fleet.fleet, "gpu-1", "raced", environment=BARE)
    await catalog_and_fleet.fleet.registry.deregister(
        await catalog_and_fleet.fleet.authentication.of(bearer(worker.token)), "bye"
    )
    await catalog_and_fleet.race.one.rows(
        catalog_and_fleet.race.central, "UPDATE worker_environments SET last_used_at = now() - interval '1 day'"
    )

    async def forget() -> int:
        async with catalog_and_fleet.race.one.databases.central.connection() as connection:
            return await forget_unused(connection)

    take = "UPDATE worker_environments SET last_used_at = clock_timestamp()"
    async with open_transaction(catalog_and_fleet.race.central, take):
        [forgetting] = await start_blocked(catalog_and_fleet.race.central, forget())
    assert await forgetting == 0
    assert (
        await catalog_and_fleet.race.one.rows(catalog_and_fleet.race.central, "SELECT FROM worker_environments") != []
    )
