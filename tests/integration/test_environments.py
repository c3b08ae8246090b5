"""Workers get only jobs that they can run: workers' reports are compared with the requirements of workflows."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from callsheet.catalog.engines.environments import forget_unused
from callsheet.catalog.engines.live_engines import LiveEngines
from callsheet.catalog.room import CatalogRoom
from callsheet.fleet.fleets.capacity import RouteCapacity
from callsheet.fleet.room import FleetRoom
from callsheet.media.storage import LocalStorage
from callsheet.providers.comfy.node_forms import InputForm, NodeForm, forms_of_object_info, packed
from callsheet.wire.catalog import CreateWorkflow, UpdateWorkflow, WorkflowDetail
from callsheet.wire.errors import NotFound, RateLimited, RatePolicy
from callsheet.wire.fleet import CreateFleetRequest
from callsheet.wire.worker.environment import Environment, Required, RequiredModel
from tests.support.http.fleet_api import bearer, join, registry
from tests.support.jobs.core import Core
from tests.support.rooms import catalog_room

_numbers = itertools.count(1)
GRAPH = {
    "1": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "sd15.safetensors"}},
    "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0]}},
}
CLASSES = ["CheckpointLoaderSimple", "SaveImage"]
WHOLE = Environment.model_validate({"node_classes": CLASSES, "models": [{"name": "sd15.safetensors"}]})
WITHOUT_MODEL = Environment(node_classes=CLASSES, models=[])
WITHOUT_CLASS = Environment.model_validate({"node_classes": ["SaveImage"], "models": [{"name": "sd15.safetensors"}]})


@pytest.fixture
def room(core: Core) -> FleetRoom:
    return registry(core.databases, core.room.leases)


@pytest.fixture
async def catalog(core: Core, tmp_path: Path) -> AsyncIterator[CatalogRoom]:
    storage = LocalStorage(
        tmp_path, public_url="http://localhost", secret=b"s" * 32, url_seconds=900, max_upload_bytes=1_000_000
    )
    yield catalog_room(core.databases, storage, 1_000_000)
    await storage.close()


async def workflow(catalog: CatalogRoom, **changes: Any) -> WorkflowDetail:
    values = {"slug": f"check-{next(_numbers)}", "name": "Check", "graph": GRAPH, "output_node_id": "2"}
    return await catalog.workflows.create(CreateWorkflow.model_validate({**values, **changes}), "operator")


async def runs(room: FleetRoom, token: str) -> tuple[int, ...]:
    """The workflows that a poll with this token may be given jobs of."""
    return (await room.authentication.of(bearer(token), for_poll=True)).workflow_ids


async def report(room: FleetRoom, token: str, environment: Environment) -> dict[str, list[tuple[str, str]]]:
    room.registry._reported.clear()
    worker = await room.authentication.of(bearer(token))
    found = await room.registry.report_environment(worker, environment)
    return {each.workflow: [(lack.kind, lack.name) for lack in each.lacks] for each in found}


async def capacity(room: FleetRoom, of: WorkflowDetail) -> RouteCapacity:
    route = (of.id, "production", "self_hosted")
    return (await room.capacity.of([route]))[route]


async def test_node_classes_and_models_of_a_graph_are_stored_with_the_workflow(catalog: CatalogRoom) -> None:
    made = await workflow(catalog)
    assert made.required is not None
    assert (made.required.node_classes, [model.name for model in made.required.models]) == (
        CLASSES,
        ["sd15.safetensors"],
    )
    assert (await catalog.workflows.get(made.slug)).required == made.required
    off = await catalog.workflows.update(
        made.slug, UpdateWorkflow.model_validate({"requirements": {"from_graph": False}}), "operator"
    )
    assert off.required is not None
    assert (off.required.node_classes, off.required.models) == ([], [])


async def test_a_worker_gets_jobs_only_of_what_its_engines_can_run(
    core: Core, room: FleetRoom, catalog: CatalogRoom
) -> None:
    needs, free = await workflow(catalog), await workflow(catalog, requirements={"from_graph": False})
    slugs = (needs.slug, free.slug)
    both = (needs.id, free.id)
    able = await join(room, "able", *slugs, environment=WHOLE)
    lacking = await join(room, "lacking", *slugs, environment=WITHOUT_MODEL)
    silent = await join(room, "silent", *slugs)
    assert await runs(room, able.token) == both
    assert await runs(room, lacking.token) == (free.id,)
    assert await runs(room, silent.token) == both, "who reports nothing is let through"
    assert [(each.workflow, each.lacks[0].name) for each in lacking.cannot_run] == [(needs.slug, "sd15.safetensors")]
    assert (able.cannot_run, silent.cannot_run) == ([], [])
    shown = await room.workers.get("lacking")
    assert (shown.workflows, shown.cannot_run) == ([free.slug], lacking.cannot_run)
    assert (await capacity(room, needs)).live_workers == 2
    assert (await capacity(room, needs)).unable == 1


async def test_the_workers_of_a_workflow_are_shown_with_what_they_lack(
    core: Core, room: FleetRoom, catalog: CatalogRoom
) -> None:
    needs, other = await workflow(catalog), await workflow(catalog)
    assert (await room.workers.of_workflow(needs.slug)).live == 0
    await room.fleets.create(CreateFleetRequest(slug="gpu", workflow_slugs=[needs.slug]), "operator")
    for number in range(7):
        await join(room, f"gpu-{number}", fleet_slug="gpu", stage="production", environment=WITHOUT_MODEL)
    await join(room, "able", needs.slug, environment=WHOLE)
    await join(room, "silent", needs.slug)
    await join(room, "elsewhere", other.slug, environment=WHOLE)
    await room.workers.drain("able", "operator", None)
    shown = await room.workers.of_workflow(needs.slug)
    assert (shown.live, shown.able) == (9, 2)
    *able, lacking = shown.groups
    assert {tuple(group.worker_ids): (group.has_reported, group.draining) for group in able} == {
        ("able",): (True, 1),
        ("silent",): (False, 0),
    }
    assert (lacking.workers, lacking.worker_ids) == (7, [f"gpu-{number}" for number in range(5)])
    assert [(lack.kind, lack.name) for lack in lacking.lacks] == [("model", "sd15.safetensors")]
    # Only what is live and approved counts.
    await room.workers.revoke("silent", "operator")
    await core.rows(
        core.databases.central,
        "UPDATE comfyui_workers SET last_seen_at = now() - interval '5 min' WHERE worker_id = 'gpu-1'",
    )
    shown = await room.workers.of_workflow(needs.slug)
    assert (shown.live, shown.able) == (7, 1)
    with pytest.raises(NotFound):
        await room.workers.of_workflow("no-such")


async def test_workers_of_a_fleet_are_checked_for_workflows_that_are_assigned_later(
    core: Core, room: FleetRoom, catalog: CatalogRoom
) -> None:
    needs, other = await workflow(catalog), await workflow(catalog, requirements={"from_graph": False})
    fleet = await room.fleets.create(CreateFleetRequest(slug="gpu", workflow_slugs=[other.slug]), "operator")
    worker = await join(room, "gpu-1", fleet_slug="gpu", stage="production", environment=WITHOUT_CLASS)
    assert worker.cannot_run == []
    await room.fleets.set_workflows(fleet.id, [needs.slug, other.slug], "operator")
    assert await runs(room, worker.token) == (other.id,)
    assert [each.workflow for each in (await room.workers.get("gpu-1")).cannot_run] == [needs.slug]


async def test_a_change_of_worker_or_workflow_takes_effect_at_the_next_poll(
    core: Core, room: FleetRoom, catalog: CatalogRoom
) -> None:
    needs = await workflow(catalog)
    worker = await join(room, "gpu-1", needs.slug, environment=WITHOUT_MODEL)
    assert await runs(room, worker.token) == ()
    assert await report(room, worker.token, WHOLE) == {}
    assert await runs(room, worker.token) == (needs.id,)
    assert await report(room, worker.token, WITHOUT_CLASS) == {needs.slug: [("node_class", "CheckpointLoaderSimple")]}
    ignoring = {"requirements": {"ignore": ["CheckpointLoaderSimple"]}}
    await catalog.workflows.update(needs.slug, UpdateWorkflow.model_validate(ignoring), "operator")
    assert await runs(room, worker.token) == (needs.id,)
    stricter = {"requirements": {"models": [{"name": "sd15.safetensors", "sha256": "ab" * 32}]}}
    await catalog.workflows.update(needs.slug, UpdateWorkflow.model_validate(stricter), "operator")
    assert await runs(room, worker.token) == ()
    lacks = (await room.workers.get("gpu-1")).cannot_run[0].lacks
    assert [lack.kind for lack in lacks] == ["node_class", "model_hash"]
    await leave(room, worker.token)
    anew = await join(room, "gpu-1", needs.slug)
    assert await runs(room, anew.token) == (needs.id,), "a registration without a report forgets the earlier one"


async def leave(room: FleetRoom, token: str) -> None:
    await room.registry.deregister(await room.authentication.of(bearer(token)), "restart")


async def test_a_waiting_job_names_the_missing_requirements(core: Core, room: FleetRoom, catalog: CatalogRoom) -> None:
    needs = await workflow(catalog)
    await join(room, "gpu-1", needs.slug, environment=WITHOUT_MODEL)
    await join(room, "gpu-2", needs.slug, environment=WITHOUT_MODEL)
    found = await capacity(room, needs)
    assert (found.live_workers, found.slots, found.unable) == (0, 0, 2)
    assert found.missing == "No worker has the model sd15.safetensors."
    await join(room, "gpu-3", needs.slug, environment=WITHOUT_CLASS)
    assert (await capacity(room, needs)).missing == (
        "2 workers lack the model sd15.safetensors and 1 worker lacks the node class CheckpointLoaderSimple."
    )
    await room.workers.drain("gpu-3", "operator")
    assert (await capacity(room, needs)).missing == "No worker has the model sd15.safetensors."
    await join(room, "gpu-4", needs.slug)
    assert ((await capacity(room, needs)).live_workers, (await capacity(room, needs)).missing) == (1, "")


async def test_workers_of_one_image_share_an_environment_that_is_deleted_after_them(
    core: Core, room: FleetRoom, catalog: CatalogRoom
) -> None:
    needs = await workflow(catalog)
    shuffled = Environment(node_classes=[*reversed(CLASSES), CLASSES[0]], models=[])
    first = await join(room, "gpu-1", needs.slug, environment=WITHOUT_MODEL)
    second = await join(room, "gpu-2", needs.slug, environment=shuffled)
    central = core.databases.central
    assert len(await core.rows(central, "SELECT digest FROM worker_environments")) == 1
    async with central.connection() as connection:
        assert await forget_unused(connection, -1.0) == 0, "it is used"
    await report(room, first.token, WHOLE)
    await leave(room, second.token)
    async with central.connection() as connection:
        assert await forget_unused(connection, 60.0) == 0, "machines of its image may come back"
        assert await forget_unused(connection, -1.0) == 1
    assert await core.rows(central, "SELECT FROM environment_lacks") == []


async def test_one_worker_cannot_fill_the_database_with_environments(
    core: Core, room: FleetRoom, catalog: CatalogRoom
) -> None:
    worker = await join(room, "gpu-1", (await workflow(catalog)).slug)
    principal = await room.authentication.of(bearer(worker.token))
    await room.registry.report_environment(principal, WHOLE)
    with pytest.raises(RateLimited) as refused:
        await room.registry.report_environment(principal, WITHOUT_MODEL)
    assert refused.value.policy == RatePolicy("environments", 1, 1)


FORMS = forms_of_object_info(
    {
        "CheckpointLoaderSimple": {"input": {"required": {"ckpt_name": [["sd15.safetensors", "sdxl.safetensors"]]}}},
        "SaveImage": {"input": {"required": {"filename_prefix": ["STRING", {"default": "ComfyUI"}]}}},
    }
)


async def test_what_engines_declare_is_read_from_workers_that_are_online(
    core: Core, room: FleetRoom, catalog: CatalogRoom
) -> None:
    assert await catalog.engines.read(FORMS) == LiveEngines()
    slug = (await workflow(catalog)).slug
    whole = WHOLE.model_copy(update={"node_forms": packed(FORMS)})
    narrower = {
        **FORMS,
        "CheckpointLoaderSimple": NodeForm({"ckpt_name": InputForm("choice", choices=("sd15.safetensors",))}),
    }
    await join(room, "first", slug, environment=whole)
    await join(room, "second", slug, environment=WHOLE.model_copy(update={"node_forms": packed(narrower)}))
    known = await catalog.engines.read(["CheckpointLoaderSimple", "Unknown"])
    assert (known.workers, list(known.forms)) == (2, ["CheckpointLoaderSimple"])
    assert known.forms["CheckpointLoaderSimple"].inputs["ckpt_name"].choices == ("sd15.safetensors",)
    async with core.databases.central.connection() as connection:
        await connection.execute("UPDATE comfyui_workers SET last_seen_at = now() - interval '1 hour'")
    assert await catalog.engines.read(FORMS) == LiveEngines()


async def test_the_operator_gets_everything_that_no_online_worker_has(room: FleetRoom, catalog: CatalogRoom) -> None:
    classes = [f"Node{number:02}" for number in range(25)]
    required = Required(node_classes=["SaveImage", *classes], models=[RequiredModel(name="sdxl.safetensors")])
    assert (await catalog.engines.read([])).warnings(required) == []
    slug = (await workflow(catalog)).slug
    await join(room, "third", slug, environment=WHOLE)
    [warning] = (await catalog.engines.read([])).warnings(required)
    assert warning.startswith("No worker has the node class Node00, the node class Node01, ")
    assert warning.endswith("the node class Node19 or 6 more. Its jobs wait until a worker can run it.")
    two = Required(
        node_classes=["CheckpointLoaderSimple", "SaveImage"], models=[RequiredModel(name="sd15.safetensors")]
    )
    assert (await catalog.engines.read([])).warnings(two) == []
    # A task worker has no engine.
    actor = f"actor:clip_{next(_numbers)}"
    await catalog.workflows.create(CreateWorkflow(slug=actor, name="Clip"), "operator")
    await join(room, "tasks", actor)
    assert (await catalog.engines.read([])).warnings(required) == [warning]
    # Another worker that does not report what it has gets every job.
    await join(room, "fourth", slug)
    assert (await catalog.engines.read([])).warnings(required) == []


async def test_things_that_exist_only_at_different_workers_are_reported_too(
    room: FleetRoom, catalog: CatalogRoom
) -> None:
    slug = (await workflow(catalog)).slug
    await join(room, "fifth", slug, environment=WITHOUT_MODEL)
    await join(room, "sixth", slug, environment=WITHOUT_CLASS)
    required = Required(node_classes=CLASSES, models=[RequiredModel(name="sd15.safetensors")])
    [warning] = (await catalog.engines.read([])).warnings(required)
    assert warning.startswith("No worker has everything that this workflow requires. One lacks the ")
