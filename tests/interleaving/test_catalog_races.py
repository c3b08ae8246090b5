"""Concurrent changes of workflows, effects and jobs: no effect and no job refers to a deleted object."""

from __future__ import annotations

import asyncio
import copy
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from callsheet.catalog.room import CatalogRoom
from callsheet.media.storage import LocalStorage
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.failpoints import Failpoint
from callsheet.wire.catalog import CreateAsset, CreateWorkflow, UpdateWorkflow
from callsheet.wire.effects import CreateEffect, UpdateEffect
from callsheet.wire.errors import Conflict, InUse, InvalidRequest, NotFound, WrongState
from tests.support.http.catalog_api import GRAPH, PNG, PRIMARY, PROMPT, SEED, STRENGTH, STYLE, TILED, overlay
from tests.support.jobs.race_control import open_transaction, paused_at, start_blocked
from tests.support.rooms import catalog_room

ACTOR = "operator"
LARGEST = 1_000_000
HOLD = "SELECT 1 FROM workflows WHERE slug = $1 FOR NO KEY UPDATE"
_numbers = itertools.count(1)

PLAIN = {node_id: node for node_id, node in GRAPH.items() if node_id != "2"}
PLAIN["5"] = {**GRAPH["5"], "inputs": {k: v for k, v in GRAPH["5"]["inputs"].items() if k != "overlay"}}
PROPERTIES = [PRIMARY, PROMPT, STYLE, SEED, STRENGTH, TILED]


@asynccontextmanager
async def opened(databases: Databases, directory: Path) -> AsyncIterator[tuple[CatalogRoom, LocalStorage]]:
    storage = LocalStorage(
        directory, public_url="http://localhost", secret=b"s" * 32, url_seconds=900, max_upload_bytes=LARGEST
    )
    yield catalog_room(databases, storage, LARGEST), storage
    await storage.close()


@dataclass(frozen=True, slots=True)
class TwoCatalogs:
    """The catalog as two control planes see it."""

    databases: Databases
    one: CatalogRoom
    two: CatalogRoom
    storage: LocalStorage

    def request(self, **changes: Any) -> CreateWorkflow:
        values = {"slug": f"race-{next(_numbers)}", "name": "Race", "graph": PLAIN, "output_node_id": "9"}
        return CreateWorkflow.model_validate({**values, "properties": copy.deepcopy(PROPERTIES), **changes})

    async def workflow(self) -> str:
        return (await self.one.workflows.create(self.request(), ACTOR)).slug

    def effect(self, workflow: str, **changes: Any) -> CreateEffect:
        given = {"credits_cost": 0, **changes}
        return CreateEffect(slug=f"race-effect-{next(_numbers)}", name="E", workflow=workflow, **given)


@pytest.fixture
async def catalogs(
    shared_databases: Databases, other_databases: Databases, tmp_path: Path
) -> AsyncIterator[TwoCatalogs]:
    """The catalog as two control planes see it."""
    async with (
        opened(shared_databases, tmp_path / "storage") as (one, storage),
        opened(other_databases, tmp_path / "storage") as (two, _),
    ):
        yield TwoCatalogs(other_databases, one, two, storage)


def narrowed() -> UpdateWorkflow:
    narrower = copy.deepcopy(PROPERTIES)
    narrower[4]["limits"] = {"min": 0, "max": 8}
    return UpdateWorkflow.model_validate({"properties": narrower})


async def test_an_effect_that_waits_for_a_change_of_its_workflow_is_checked_against_the_changed_workflow(
    catalogs: TwoCatalogs,
) -> None:
    slug = await catalogs.workflow()
    effect = catalogs.effect(slug, overrides={"strength": 9})
    works: list[Any] = [
        catalogs.one.workflows.update(slug, narrowed(), ACTOR),
        catalogs.two.effects.create(effect, ACTOR),
    ]
    async with open_transaction(catalogs.databases.central, HOLD, slug):
        tasks = await start_blocked(catalogs.databases.central, *works)
    changed, created = await asyncio.gather(*tasks, return_exceptions=True)
    # Whichever was first, the other one was refused: never are both written.
    assert [isinstance(each, InvalidRequest) for each in (changed, created)].count(True) == 1
    effects = await catalogs.one.effects.list(slug, None, None, 10)
    assert len(effects.items) == (0 if isinstance(created, InvalidRequest) else 1)


async def test_a_change_of_a_workflow_that_waits_for_a_new_effect_sees_it(catalogs: TwoCatalogs) -> None:
    slug = await catalogs.workflow()
    async with catalogs.databases.central.transaction() as connection:
        # An effect of the other control plane, checked and not committed yet.
        await connection.fetch("SELECT 1 FROM workflows WHERE slug = $1 FOR SHARE", slug)
        await connection.execute(
            """INSERT INTO effects (id, slug, name, workflow_id, overrides)
               SELECT gen_random_uuid(), $2, 'E', id, '{"strength": 9}' FROM workflows WHERE slug = $1""",
            slug,
            f"race-effect-{next(_numbers)}",
        )
        [change] = await start_blocked(
            catalogs.databases.central, catalogs.one.workflows.update(slug, narrowed(), ACTOR)
        )
    with pytest.raises(InvalidRequest, match=r"overrides\.strength"):
        await change


async def test_a_change_of_a_price_and_of_the_limits_that_it_needs_wait_for_each_other(catalogs: TwoCatalogs) -> None:
    slug = await catalogs.workflow()
    effect = CreateEffect(slug=f"race-effect-{next(_numbers)}", name="E", workflow=slug, price_formula="strength")
    await catalogs.one.effects.create(effect, ACTOR)
    raised = copy.deepcopy(PROPERTIES)
    raised[4]["limits"] = {"min": 3, "max": 8}
    works: list[Any] = [
        catalogs.two.workflows.update(slug, UpdateWorkflow.model_validate({"properties": raised}), ACTOR),
        catalogs.one.effects.update(effect.slug, UpdateEffect(price_formula="strength * 2"), ACTOR),
    ]
    async with open_transaction(catalogs.databases.central, HOLD, slug):
        tasks = await start_blocked(catalogs.databases.central, *works)
    await asyncio.gather(*tasks)
    # The price of the last formula with the last limits, whichever was first.
    kept = await catalogs.one.effects.get(effect.slug)
    assert (kept.price_formula, kept.credits_cost) == ("strength * 2", 6)


async def test_the_second_of_two_changes_of_the_same_effect_version_is_refused(
    catalogs: TwoCatalogs,
) -> None:
    effect = catalogs.effect(await catalogs.workflow(), overrides={"prompt": "a dog"})
    read = await catalogs.one.effects.create(effect, ACTOR)
    works: list[Any] = [
        room.effects.update(effect.slug, UpdateEffect(overrides={**read.overrides, **change}, version=1), ACTOR)
        for room, change in ((catalogs.one, {"strength": 2}), (catalogs.two, {"prompt": "a cat"}))
    ]
    async with open_transaction(
        catalogs.databases.central, "SELECT 1 FROM effects WHERE slug = $1 FOR UPDATE", effect.slug
    ):
        tasks = await start_blocked(catalogs.databases.central, *works)
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    [made] = [each for each in outcomes if not isinstance(each, BaseException)]
    [refused] = [each for each in outcomes if isinstance(each, BaseException)]
    assert isinstance(refused, WrongState)
    assert refused.errors[0].field == "version"
    kept = await catalogs.one.effects.get(effect.slug)
    assert (kept.version, kept.overrides) == (2, made.overrides)
    # A request without a version changes only the fields that it names, whatever the others are.
    renamed = await catalogs.two.effects.update(effect.slug, UpdateEffect(name="Renamed"), ACTOR)
    assert (renamed.version, renamed.overrides) == (3, made.overrides)


async def test_two_concurrent_changes_of_a_workflow_are_both_kept(catalogs: TwoCatalogs) -> None:
    slug = await catalogs.workflow()
    graph = copy.deepcopy(PLAIN)
    graph["5"]["inputs"]["steps"] = 30
    update = UpdateWorkflow(graph=graph)
    # Checked against what it was, then overtaken: it must look again.
    async with paused_at(Failpoint.CATALOG_BEFORE_ROW, catalogs.one.workflows.update(slug, update, ACTOR)) as slow:
        await catalogs.two.workflows.update(slug, narrowed(), ACTOR)
        await catalogs.two.workflows.update(slug, UpdateWorkflow(name="Renamed"), ACTOR)
    await slow
    now = await catalogs.one.workflows.get(slug)
    assert (now.name, now.graph, now.properties[4].limits.max) == ("Renamed", graph, 8)


async def test_the_second_of_two_changes_of_the_same_workflow_version_is_refused(
    catalogs: TwoCatalogs,
) -> None:
    slug = await catalogs.workflow()
    works: list[Any] = [
        room.workflows.update(slug, UpdateWorkflow(name=name, version=1), ACTOR)
        for room, name in ((catalogs.one, "One"), (catalogs.two, "Two"))
    ]
    async with open_transaction(catalogs.databases.central, HOLD, slug):
        tasks = await start_blocked(catalogs.databases.central, *works)
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    [made] = [each for each in outcomes if not isinstance(each, BaseException)]
    [refused] = [each for each in outcomes if isinstance(each, BaseException)]
    assert isinstance(refused, WrongState)
    assert refused.errors[0].field == "version"
    now = await catalogs.one.workflows.get(slug)
    assert (now.version, now.name) == (2, made.name)
    listed = await catalogs.one.versions.list(slug, None, 10)
    assert [each.version for each in listed.items] == [2, 1]


async def test_concurrent_requests_create_a_workflow_once(catalogs: TwoCatalogs) -> None:
    request = catalogs.request()
    works = [room.workflows.create(request, ACTOR) for room in (catalogs.one, catalogs.two)]
    made = await asyncio.gather(*works, return_exceptions=True)
    assert sorted(type(each).__name__ for each in made) == ["Conflict", "WorkflowDetail"]
    assert [each for each in made if isinstance(each, Conflict)]


async def test_a_workflow_is_deleted_or_gets_an_effect_but_never_both(catalogs: TwoCatalogs) -> None:
    lock = "SELECT 1 FROM workflows WHERE slug = $1 FOR UPDATE"
    for deletes_first in (True, False):
        slug = await catalogs.workflow()
        await catalogs.one.workflows.update(slug, UpdateWorkflow(is_active=False), ACTOR)
        works: list[Any] = [
            catalogs.one.workflows.delete(slug, ACTOR),
            catalogs.two.effects.create(catalogs.effect(slug), ACTOR),
        ]
        async with open_transaction(catalogs.databases.central, lock, slug):
            tasks = await start_blocked(catalogs.databases.central, *(works if deletes_first else reversed(works)))
        responses = await asyncio.gather(*tasks, return_exceptions=True)
        deleted, created = responses if deletes_first else reversed(responses)
        if deleted is None:
            assert isinstance(created, InvalidRequest)
        else:
            assert isinstance(deleted, InUse)
            assert created.workflow == slug


async def test_an_asset_is_deleted_or_gets_a_use_but_never_both(catalogs: TwoCatalogs) -> None:
    lock = "SELECT 1 FROM catalog_assets WHERE id = $1 FOR UPDATE"
    for deletes_first in (True, False):
        asset = await ready_asset(catalogs)
        graph = {**PLAIN, "2": GRAPH["2"], "5": GRAPH["5"]}
        properties = [*copy.deepcopy(PROPERTIES), overlay(str(asset))]
        works: list[Any] = [
            catalogs.one.assets.delete(asset, ACTOR),
            catalogs.two.workflows.create(catalogs.request(graph=graph, properties=properties), ACTOR),
        ]
        async with open_transaction(catalogs.databases.central, lock, asset):
            tasks = await start_blocked(catalogs.databases.central, *(works if deletes_first else reversed(works)))
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        deleted, created = outcomes if deletes_first else reversed(outcomes)
        if deleted is None:
            assert isinstance(created, InvalidRequest)
            assert created.errors[0].field == "properties.6.default"
        else:
            assert isinstance(deleted, InUse)
            assert created.slug in str(deleted.detail)
            assert (await catalogs.one.assets.get(asset)).used_by


async def ready_asset(catalogs: TwoCatalogs) -> UUID:
    created = await catalogs.one.assets.create(CreateAsset(name="a.png", mime_type="image/png", size=len(PNG)), ACTOR)
    await catalogs.storage.put(f"catalog/assets/{created.asset.id}/upload", PNG, content_type="image/png")
    return (await catalogs.one.assets.confirm(created.asset.id, ACTOR)).id


async def test_an_effect_is_deleted_or_used_but_never_both(catalogs: TwoCatalogs) -> None:
    slug = await catalogs.workflow()
    lock = "SELECT 1 FROM effects WHERE id = $1 FOR UPDATE"
    for deletes_first in (True, False):
        effect = await catalogs.one.effects.create(catalogs.effect(slug, is_published=True), ACTOR)
        recipe = await catalogs.two.effects.recipe(effect.slug)
        assert recipe is not None
        works: list[Any] = [
            catalogs.one.effects.delete(effect.slug, ACTOR),
            catalogs.two.effects.mark_used(recipe),
        ]
        async with open_transaction(catalogs.databases.central, lock, effect.id):
            tasks = await start_blocked(catalogs.databases.central, *(works if deletes_first else reversed(works)))
        responses = await asyncio.gather(*tasks, return_exceptions=True)
        deleted, used = responses if deletes_first else reversed(responses)
        if deleted is None:
            assert used is False
            with pytest.raises(NotFound):
                await catalogs.one.effects.get(effect.slug)
        else:
            assert isinstance(deleted, InUse)
            assert used is True
            assert (await catalogs.one.effects.get(effect.slug)).has_jobs


async def test_two_concurrent_changes_of_an_effect_are_both_kept(catalogs: TwoCatalogs) -> None:
    slug = await catalogs.workflow()
    effect = await catalogs.one.effects.create(catalogs.effect(slug), ACTOR)
    lock = "SELECT 1 FROM effects WHERE id = $1 FOR UPDATE"
    async with open_transaction(catalogs.databases.central, lock, effect.id):
        tasks = await start_blocked(
            catalogs.databases.central,
            catalogs.one.effects.update(effect.slug, UpdateEffect(credits_cost=7), ACTOR),
            catalogs.two.effects.update(effect.slug, UpdateEffect(is_published=True), ACTOR),
        )
    await asyncio.gather(*tasks)
    now = await catalogs.one.effects.get(effect.slug)
    assert (now.credits_cost, now.is_published) == (7, True)


async def test_an_asset_confirmed_twice_keeps_one_object(catalogs: TwoCatalogs) -> None:
    request = CreateAsset(name="x.png", mime_type="image/png", size=len(PNG))
    asset_id = (await catalogs.one.assets.create(request, ACTOR)).asset.id
    folder = f"catalog/assets/{asset_id}"
    await catalogs.storage.put(f"{folder}/upload", PNG, content_type="image/png")
    async with paused_at(Failpoint.CATALOG_BEFORE_ROW, catalogs.one.assets.confirm(asset_id, ACTOR)) as slow:
        await catalogs.two.assets.confirm(asset_id, ACTOR)
    assert (await slow).status == "ready"
    async with catalogs.databases.central.connection() as connection:
        path = await connection.fetchval("SELECT path FROM catalog_assets WHERE id = $1", asset_id)
    assert [entry.key async for entry in catalogs.storage.list(folder)] == [path]
    assert await catalogs.storage.read(path, LARGEST) == PNG
