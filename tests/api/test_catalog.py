"""The catalog over HTTP: workflows, effects and assets for admins, effects for users, and the audit log."""

from __future__ import annotations

import asyncio
import copy
import hashlib
import itertools
from typing import Any

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.plumbing.failpoints import Crashed, Failpoint, armed, crash
from callsheet.toolbox.ids import uuid7
from callsheet.wire.catalog import CreateWorkflow
from tests.support.http.accounts import People, Person
from tests.support.http.catalog_api import GRAPH, MP4, PNG, CatalogApi, workflow
from tests.support.http.responses import assert_refused

numbers = itertools.count(1)


@pytest.fixture
async def catalog_api(plane: ControlPlane, client: httpx.AsyncClient, people: People) -> CatalogApi:
    return await CatalogApi.open(plane, client, people)


@pytest.fixture
async def ann(catalog_api: CatalogApi) -> Person:
    return await catalog_api.person()


async def audit(catalog_api: CatalogApi, **filters: Any) -> list[dict[str, Any]]:
    response = await catalog_api.client.get("/api/admin/audit-logs", params=filters, headers=catalog_api.admin.headers)
    assert response.status_code == 200, response.text
    return list(response.json()["items"])


async def test_the_graph_of_a_workflow_is_stored_under_the_hash_of_its_bytes(
    catalog_api: CatalogApi, plane: ControlPlane
) -> None:
    request = workflow(catalog_api.asset, description="Makes it pretty.\nTwice.", run_limit_seconds=60)
    made = await catalog_api.made("/api/admin/workflows", request)
    assert {name: made[name] for name in ("slug", "name", "description", "is_active", "run_limit_seconds")} == {
        "slug": request["slug"],
        "name": "Stylize",
        "description": "Makes it pretty.\nTwice.",
        "is_active": True,
        "run_limit_seconds": 60,
    }
    assert made["graph"] == GRAPH
    assert [each["key"] for each in made["properties"]] == [each["key"] for each in request["properties"]]
    path = made["comfyui_workflow_path"]
    content = await plane.rooms.storage.read(path, 1_000_000)
    assert path == f"catalog/workflows/{request['slug']}/{hashlib.sha256(content).hexdigest()}.json"
    assert (await catalog_api.call("GET", f"/api/admin/workflows/{request['slug']}")).json() == made
    [entry] = await audit(catalog_api, subject_type="workflow", subject_id=request["slug"])
    assert (entry["action"], entry["actor"]) == ("workflow.create", f"admin:{catalog_api.admin.user.id}")


async def test_a_workflow_without_a_graph_is_not_for_engines(catalog_api: CatalogApi) -> None:
    slug = f"actor:echo-{next(numbers)}"
    made = await catalog_api.made("/api/admin/workflows", {"slug": slug, "name": "Echo"})
    assert (made["graph"], made["comfyui_workflow_path"], made["properties"]) == (None, None, [])
    refused = await catalog_api.call(
        "POST", "/api/admin/effects", {"slug": f"e-{next(numbers)}", "name": "E", "workflow": slug}
    )
    assert "no graph" in assert_refused(refused, 422, "invalid_request", "workflow")["detail"]
    with_graph = await catalog_api.call(
        "PATCH", f"/api/admin/workflows/{slug}", {"graph": GRAPH, "output_node_id": "9"}
    )
    assert_refused(with_graph, 422, "invalid_request", "properties")


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"slug": "Not A Slug"}, ["slug"]),
        ({"name": ""}, ["name"]),
        ({"name": "a\0b"}, ["name"]),
        ({"description": "a\0b"}, ["description"]),
        ({"graph": {"nodes": [], "links": []}}, ["graph"]),
        ({"graph": {}}, ["graph"]),
        ({"graph": []}, ["graph"]),
        ({"graph": {"1": {"class_type": "A\0", "inputs": {}}}}, ["graph"]),
        ({"graph": {"1": {"class_type": "A", "inputs": {"x": float("nan")}}}}, ["graph"]),
        ({"graph": {"1": {"class_type": "A"}}}, ["graph.1.inputs"]),
        ({"graph": None}, ["properties"]),
        (
            {"properties": [{"key": "a", "type": "text", "placeholder": "{{gone}}"}]},
            ["properties.0.placeholder", "properties"],
        ),
        ({"properties": [{"key": "A", "type": "text", "placeholder": "{{prompt}}"}]}, ["properties.0.key"]),
        ({"properties": [{"key": "a", "type": "color", "placeholder": "{{prompt}}"}]}, ["properties.0.type"]),
        ({"properties": [{"key": "a", "type": "text", "placeholder": "x"}]}, ["properties.0.placeholder"]),
        (
            {"properties": [{"key": "a", "type": "text", "placeholder": "{{prompt}}", "default": [1]}]},
            ["properties.0.default"],
        ),
        ({"output_node_id": "77"}, ["output_node_id"]),
        ({"output_extension": "../x"}, ["output_extension"]),
        ({"output_mime_type": "text/html"}, ["output_mime_type"]),
        ({"output_mime_type": "image/png"}, ["output_mime_type"]),
        ({"run_limit_seconds": 0}, ["run_limit_seconds"]),
        ({"keep_metadata": "yes"}, ["keep_metadata"]),
        ({"lease_seconds": 14}, ["lease_seconds"]),
        ({"max_attempts": 0}, ["max_attempts"]),
        ({"surprise": 1}, ["surprise"]),
    ],
    ids=str,
)
async def test_a_bad_workflow_names_its_fields_and_is_not_written(
    catalog_api: CatalogApi, change: dict[str, Any], fields: list[str]
) -> None:
    request = workflow(catalog_api.asset, **change)
    assert_refused(await catalog_api.call("POST", "/api/admin/workflows", request), 422, "invalid_request", *fields)
    if change.keys() != {"slug"}:
        missing = await catalog_api.call("GET", f"/api/admin/workflows/{request['slug']}")
        assert_refused(missing, 404, "not_found")


async def test_a_graph_of_nodes_that_no_output_needs_is_refused_with_their_number(catalog_api: CatalogApi) -> None:
    unused = {f"unused-{number}": {"class_type": "EmptyImage", "inputs": {}} for number in range(1200)}
    request = workflow(catalog_api.asset, graph={**GRAPH, **unused})
    problem = assert_refused(
        await catalog_api.call("POST", "/api/admin/workflows", request), 422, "invalid_request", "graph"
    )
    assert "1200 nodes that lead to no output" in problem["detail"]


async def test_the_ui_format_is_refused_with_the_steps_to_export_the_api_format(catalog_api: CatalogApi) -> None:
    request = workflow(catalog_api.asset, graph={"nodes": [{"id": 1}], "links": [], "version": 0.4})
    problem = assert_refused(
        await catalog_api.call("POST", "/api/admin/workflows", request), 422, "invalid_request", "graph"
    )
    assert "Export (API)" in problem["detail"]


async def test_an_asset_used_as_a_default_must_exist_and_have_the_right_type(catalog_api: CatalogApi) -> None:
    declared = {"name": "x.png", "mime_type": "image/png", "size": 5}
    pending = (await catalog_api.made("/api/admin/assets", declared))["asset"]["id"]
    video = await catalog_api.add_asset(MP4, "video/mp4")
    for asset in (str(uuid7()), pending, video):
        refused = await catalog_api.call("POST", "/api/admin/workflows", workflow(asset))
        assert_refused(refused, 422, "invalid_request", "properties.6.default")


async def test_a_slug_can_be_used_only_once(catalog_api: CatalogApi) -> None:
    made = await catalog_api.workflow()
    again = await catalog_api.call("POST", "/api/admin/workflows", workflow(catalog_api.asset, slug=made["slug"]))
    assert_refused(again, 409, "conflict", "slug")
    effect = await catalog_api.effect(made["slug"])
    twin = {"slug": effect["slug"], "name": "Twin", "workflow": made["slug"]}
    assert_refused(await catalog_api.call("POST", "/api/admin/effects", twin), 409, "conflict", "slug")


async def test_a_change_keeps_the_other_fields_and_the_old_graph(catalog_api: CatalogApi, plane: ControlPlane) -> None:
    made = await catalog_api.workflow()
    address = f"/api/admin/workflows/{made['slug']}"
    renamed = (await catalog_api.call("PATCH", address, {"name": "Better", "description": None})).json()
    untouched = made.keys() - {"name", "updated_at", "version"}
    assert {name: renamed[name] for name in untouched} == {name: made[name] for name in untouched}
    graph = copy.deepcopy(GRAPH)
    graph["5"]["inputs"]["steps"] = 30
    changed = (await catalog_api.call("PATCH", address, {"graph": graph})).json()
    assert (changed["name"], changed["graph"]) == ("Better", graph)
    assert changed["comfyui_workflow_path"] != made["comfyui_workflow_path"]
    assert await plane.rooms.storage.head(made["comfyui_workflow_path"]) is not None
    fields = [
        entry["details"]["fields"]
        for entry in await audit(catalog_api, subject_type="workflow", action="workflow.update")
    ]
    assert fields[:2] == [["graph"], ["name"]]


async def test_a_change_is_checked_together_with_the_unchanged_fields(catalog_api: CatalogApi) -> None:
    made = await catalog_api.workflow()
    address = f"/api/admin/workflows/{made['slug']}"
    graph = copy.deepcopy(GRAPH)
    del graph["9"]
    refused = await catalog_api.call("PATCH", address, {"graph": graph})
    assert_refused(refused, 422, "invalid_request", "output_node_id")
    graph = copy.deepcopy(GRAPH)
    graph["3"]["inputs"]["text"] = "no placeholders"
    refused = await catalog_api.call("PATCH", address, {"graph": graph})
    assert_refused(refused, 422, "invalid_request", "properties.1.placeholder", "properties.2.placeholder")
    assert_refused(
        await catalog_api.call("PATCH", address, {"output_extension": "png"}),
        422,
        "invalid_request",
        "output_mime_type",
    )
    assert (await catalog_api.call("GET", address)).json() == made


async def test_changed_properties_must_still_fit_the_values_of_existing_effects(catalog_api: CatalogApi) -> None:
    made = await catalog_api.workflow()
    effect = await catalog_api.effect(made["slug"], overrides={"strength": 9})
    narrower = copy.deepcopy(made["properties"])
    narrower[4]["limits"] = {"min": 0, "max": 8}
    address = f"/api/admin/workflows/{made['slug']}"
    refused = await catalog_api.call("PATCH", address, {"properties": narrower})
    problem = assert_refused(refused, 422, "invalid_request", "properties")
    assert effect["slug"] in problem["detail"]
    await catalog_api.call("PATCH", f"/api/admin/effects/{effect['slug']}", {"overrides": {"strength": 8}})
    assert (await catalog_api.call("PATCH", address, {"properties": narrower})).status_code == 200
    too_strong = await catalog_api.call("PATCH", f"/api/admin/effects/{effect['slug']}", {"overrides": {"strength": 9}})
    assert_refused(too_strong, 422, "invalid_request", "overrides.strength")


async def test_a_workflow_without_an_output_node_delivers_every_saved_file(catalog_api: CatalogApi) -> None:
    made = await catalog_api.workflow()
    address = f"/api/admin/workflows/{made['slug']}"
    changed = await catalog_api.call("PATCH", address, {"output_node_id": None})
    assert (changed.status_code, changed.json()["output_node_id"]) == (200, None)
    # What is left out stays as it is.
    assert (await catalog_api.call("PATCH", address, {"name": "All"})).json()["output_node_id"] is None
    assert (await catalog_api.call("PATCH", address, {"output_node_id": "9"})).json()["output_node_id"] == "9"
    assert (await catalog_api.workflow(output_node_id=None))["output_node_id"] is None


async def test_concurrent_changes_are_all_kept(catalog_api: CatalogApi) -> None:
    made = await catalog_api.workflow()
    address = f"/api/admin/workflows/{made['slug']}"
    changes = [{"name": "One"}, {"description": "Two"}, {"run_limit_seconds": 3}, {"is_active": False}]
    assert made["keep_metadata"] is False
    changes.append({"keep_metadata": True})
    responses = await asyncio.gather(*(catalog_api.call("PATCH", address, change) for change in changes))
    assert [response.status_code for response in responses] == [200] * 5
    now = (await catalog_api.call("GET", address)).json()
    assert (now["name"], now["description"], now["run_limit_seconds"], now["is_active"]) == ("One", "Two", 3, False)
    assert now["keep_metadata"] is True


async def test_workflows_are_switched_off_and_on_and_listed(catalog_api: CatalogApi) -> None:
    slugs = [(await catalog_api.workflow())["slug"] for _ in range(3)]
    off = await catalog_api.call("POST", f"/api/admin/workflows/{slugs[0]}/deactivate")
    assert (off.status_code, off.json()["is_active"]) == (200, False)
    page = (await catalog_api.call("GET", "/api/admin/workflows?limit=2")).json()
    assert [item["slug"] for item in page["items"]] == [slugs[2], slugs[1]]
    after = (await catalog_api.call("GET", f"/api/admin/workflows?limit=1&cursor={page['next_cursor']}")).json()
    assert [item["slug"] for item in after["items"]] == [slugs[0]]
    assert "graph" not in after["items"][0]
    inactive = (await catalog_api.call("GET", "/api/admin/workflows?is_active=false&limit=1")).json()
    assert [item["slug"] for item in inactive["items"]] == [slugs[0]]
    on = await catalog_api.call("POST", f"/api/admin/workflows/{slugs[0]}/activate")
    assert on.json()["is_active"] is True


async def test_a_crash_between_storage_and_row_does_not_block_a_second_attempt(
    catalog_api: CatalogApi, plane: ControlPlane
) -> None:
    request = workflow(catalog_api.asset)
    with armed({Failpoint.CATALOG_BEFORE_ROW: crash}), pytest.raises(Crashed):
        await plane.rooms.catalog.workflows.create(CreateWorkflow.model_validate(request), "operator")
    assert_refused(await catalog_api.call("GET", f"/api/admin/workflows/{request['slug']}"), 404, "not_found")
    made = await catalog_api.made("/api/admin/workflows", request)
    folder = f"catalog/workflows/{request['slug']}"
    assert [entry.key async for entry in plane.rooms.storage.list(folder)] == [made["comfyui_workflow_path"]]

    created = await catalog_api.made("/api/admin/assets", {"name": "x.png", "mime_type": "image/png", "size": len(PNG)})
    asset_id = created["asset"]["id"]
    await catalog_api.put(created["upload"], PNG)
    with armed({Failpoint.CATALOG_BEFORE_ROW: crash}), pytest.raises(Crashed):
        await plane.rooms.catalog.assets.confirm(asset_id, "operator")
    assert (await catalog_api.call("GET", f"/api/admin/assets/{asset_id}")).json()["status"] == "pending"
    assert (await catalog_api.call("POST", f"/api/admin/assets/{asset_id}/confirm")).json()["status"] == "ready"
    assert len([entry async for entry in plane.rooms.storage.list(f"catalog/assets/{asset_id}")]) == 1


async def test_a_graph_that_is_missing_in_storage_is_a_503(catalog_api: CatalogApi, plane: ControlPlane) -> None:
    made = await catalog_api.workflow()
    await plane.rooms.storage.delete(made["comfyui_workflow_path"])
    response = await catalog_api.call("GET", f"/api/admin/workflows/{made['slug']}")
    assert_refused(response, 503, "unavailable")


async def test_a_workflow_is_deleted_only_if_it_is_unused(catalog_api: CatalogApi, plane: ControlPlane) -> None:
    made = await catalog_api.workflow()
    address = f"/api/admin/workflows/{made['slug']}"
    assert_refused(await catalog_api.call("DELETE", address), 409, "wrong_state")
    await catalog_api.call("POST", f"{address}/deactivate")
    effect = await catalog_api.effect(made["slug"])
    assert_refused(await catalog_api.call("DELETE", address), 409, "in_use")
    await catalog_api.call("DELETE", f"/api/admin/effects/{effect['slug']}")
    async with plane.databases.central.connection() as connection:
        # As the first job of a workflow leaves it.
        await connection.execute(
            "INSERT INTO dispatch_lanes (workflow_id, stage, provider) VALUES ($1, 'production', 'self_hosted')",
            made["id"],
        )
        assert_refused(await catalog_api.call("DELETE", address), 409, "in_use")
        await connection.execute("DELETE FROM dispatch_lanes WHERE workflow_id = $1", made["id"])
    assert (await catalog_api.call("DELETE", address)).status_code == 204
    assert_refused(await catalog_api.call("GET", address), 404, "not_found")
    assert_refused(await catalog_api.call("DELETE", address), 404, "not_found")
    # The slug is free again.
    again = await catalog_api.workflow(slug=made["slug"])
    assert (again["id"] > made["id"], again["is_active"]) == (True, True)


async def test_publishing_an_effect_with_a_price_of_zero_must_be_explicit(catalog_api: CatalogApi) -> None:
    made = await catalog_api.workflow()
    request = {"slug": f"unpriced-{next(numbers)}", "name": "Unpriced", "workflow": made["slug"]}
    refused = await catalog_api.call("POST", "/api/admin/effects", {**request, "is_published": True})
    assert_refused(refused, 422, "invalid_request", "credits_cost")
    effect = await catalog_api.made("/api/admin/effects", request)
    address = f"/api/admin/effects/{effect['id']}"
    assert_refused(
        await catalog_api.call("PATCH", address, {"is_published": True}), 422, "invalid_request", "credits_cost"
    )
    free = (await catalog_api.call("PATCH", address, {"is_published": True, "credits_cost": 0})).json()
    assert (free["is_published"], free["credits_cost"]) == (True, 0)
    # Of what is on offer already, other fields are changed without saying it again.
    assert (await catalog_api.call("PATCH", address, {"is_published": True, "name": "Free"})).status_code == 200


async def test_an_effect_is_made_changed_and_published(catalog_api: CatalogApi, ann: Person) -> None:
    made = await catalog_api.workflow()
    effect = await catalog_api.effect(
        made["slug"], overrides={"strength": 3, "overlay": catalog_api.asset}, credits_cost=5, is_published=False
    )
    assert (effect["workflow"], effect["provider"], effect["stage"]) == (made["slug"], "self_hosted", "production")
    assert (effect["last_processing_time_seconds"], effect["has_jobs"]) == (None, False)
    assert_refused(await catalog_api.call("GET", f"/api/effects/{effect['slug']}", person=ann), 404, "not_found")
    address = f"/api/admin/effects/{effect['id']}"
    change = {"is_published": True, "credits_cost": 7, "provider": "cloud", "stage": "staging", "name": "Best"}
    changed = (await catalog_api.call("PATCH", address, change)).json()
    assert "'cloud'" in changed.pop("warnings")[0]
    changed["warnings"] = []
    assert changed == effect | change | {"version": 2, "updated_at": changed["updated_at"]}
    assert (await catalog_api.call("GET", address)).json() == changed
    outdated = {"overrides": effect["overrides"], "version": effect["version"]}
    assert_refused(await catalog_api.call("PATCH", address, outdated), 409, "wrong_state", "version")
    assert (await catalog_api.call("GET", f"/api/admin/effects/{effect['slug']}")).json() == changed
    update, create = await audit(catalog_api, subject_type="effect", subject_id=effect["id"])
    assert (create["action"], update["action"]) == ("effect.create", "effect.update")
    assert update["details"]["credits_cost"] == 7


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"slug": "Not A Slug"}, ["slug"]),
        ({"slug": "0190b3a0-0000-7000-8000-000000000001"}, ["slug"]),
        ({"workflow": "no-such-workflow"}, ["workflow"]),
        ({"workflow": None}, ["workflow"]),
        ({"overrides": {"strength": 11}}, ["overrides.strength"]),
        ({"overrides": {"nothing": 1, "seed": "x"}}, ["overrides.nothing", "overrides.seed"]),
        ({"overrides": {"input": "x"}}, ["overrides.input"]),
        ({"overrides": {"overlay": "0190b3a0-0000-7000-8000-000000000001"}}, ["overrides.overlay"]),
        ({"overrides": {"prompt": "a\0b"}}, ["overrides.prompt"]),
        ({"credits_cost": -1}, ["credits_cost"]),
        ({"provider": "Not A Provider"}, ["provider"]),
        ({"stage": ""}, ["stage"]),
        ({"surprise": 1}, ["surprise"]),
    ],
    ids=str,
)
async def test_a_bad_effect_names_its_fields(
    catalog_api: CatalogApi, change: dict[str, Any], fields: list[str]
) -> None:
    made = await catalog_api.workflow()
    request = {"slug": f"bad-{next(numbers)}", "name": "Bad", "workflow": made["slug"], **change}
    assert_refused(await catalog_api.call("POST", "/api/admin/effects", request), 422, "invalid_request", *fields)
    effect = await catalog_api.effect(made["slug"])
    if "slug" not in change and change != {"workflow": None}:
        refused = await catalog_api.call("PATCH", f"/api/admin/effects/{effect['slug']}", change)
        assert_refused(refused, 422, "invalid_request", *fields)


async def test_effects_are_listed_for_admins_by_workflow_and_state(catalog_api: CatalogApi) -> None:
    made = await catalog_api.workflow()
    effects = [await catalog_api.effect(made["slug"], is_published=number != 1) for number in range(3)]
    address = f"/api/admin/effects?workflow={made['slug']}"
    page = (await catalog_api.call("GET", f"{address}&limit=2")).json()
    assert [item["slug"] for item in page["items"]] == [effects[2]["slug"], effects[1]["slug"]]
    rest = (await catalog_api.call("GET", f"{address}&cursor={page['next_cursor']}")).json()
    assert [item["slug"] for item in rest["items"]] == [effects[0]["slug"]]
    hidden = (await catalog_api.call("GET", f"{address}&is_published=false")).json()
    assert [item["slug"] for item in hidden["items"]] == [effects[1]["slug"]]


async def test_an_effect_without_jobs_is_deleted(catalog_api: CatalogApi) -> None:
    effect = await catalog_api.effect()
    address = f"/api/admin/effects/{effect['slug']}"
    assert (await catalog_api.call("DELETE", address)).status_code == 204
    assert_refused(await catalog_api.call("DELETE", address), 404, "not_found")
    assert_refused(await catalog_api.call("GET", address), 404, "not_found")
    assert_refused(await catalog_api.call("PATCH", address, {"name": "x"}), 404, "not_found")
    assert (await audit(catalog_api, subject_type="effect", subject_id=effect["id"]))[0]["action"] == "effect.delete"


async def test_users_see_the_input_type_and_the_settable_properties_of_an_effect(
    catalog_api: CatalogApi, ann: Person
) -> None:
    effect = await catalog_api.effect(overrides={"strength": 3, "prompt": "of the house"}, credits_cost=4)
    shown = (await catalog_api.call("GET", f"/api/effects/{effect['slug']}", person=ann)).json()
    assert (shown["credits_cost"], shown["is_available"]) == (4, True)
    assert shown["input"] == {
        "type": "video",
        "label": "input",
        "description": "",
        "max_bytes": None,
        "max_seconds": None,
        "accept": ["video/*"],
    }
    seen = {each["key"]: (each["type"], each["required"], each["default"]) for each in shown["properties"]}
    assert seen == {
        "prompt": ("text", False, "of the house"),
        "style": ("choice", False, "noir"),
        "strength": ("number", False, 3),
        "tiled": ("boolean", False, False),
        "overlay": ("image", False, None),
    }
    assert "placeholder" not in str(shown)
    assert "workflow" not in shown
    assert (await catalog_api.call("GET", f"/api/effects/{effect['id']}", person=ann)).json() == shown


async def test_users_list_published_effects_and_search_by_name(catalog_api: CatalogApi, ann: Person) -> None:
    name = f"Wörld {next(numbers)}"
    made = await catalog_api.workflow()
    effects = [await catalog_api.effect(made["slug"], name=f"{name} {letter}") for letter in "abc"]
    hidden = await catalog_api.effect(made["slug"], name=f"{name} d", is_published=False)
    search = {"search": name.upper(), "limit": "2"}
    page = (await catalog_api.client.get("/api/effects", params=search, headers=ann.headers)).json()
    assert [item["slug"] for item in page["items"]] == [effects[2]["slug"], effects[1]["slug"]]
    search["cursor"] = page["next_cursor"]
    rest = (await catalog_api.client.get("/api/effects", params=search, headers=ann.headers)).json()
    assert ([item["slug"] for item in rest["items"]], rest["next_cursor"]) == ([effects[0]["slug"]], None)
    everything = (await catalog_api.client.get("/api/effects?limit=200", headers=ann.headers)).json()["items"]
    assert hidden["slug"] not in [item["slug"] for item in everything]
    nothing = await catalog_api.client.get("/api/effects", params={"search": "100%_"}, headers=ann.headers)
    assert nothing.json()["items"] == []


async def test_an_asset_is_uploaded_confirmed_and_never_overwritten(
    catalog_api: CatalogApi, plane: ControlPlane
) -> None:
    sha256 = hashlib.sha256(PNG).hexdigest()
    declared = {"name": "mask.png", "mime_type": "image/png", "size": len(PNG), "sha256": sha256}
    created = await catalog_api.made("/api/admin/assets", declared)
    asset_id = created["asset"]["id"]
    address = f"/api/admin/assets/{asset_id}"
    assert created["asset"]["status"] == "pending"
    early = await catalog_api.call("POST", f"{address}/confirm")
    assert_refused(early, 422, "content_mismatch")
    await catalog_api.put(created["upload"], PNG)
    responses = await asyncio.gather(*(catalog_api.call("POST", f"{address}/confirm") for _ in range(3)))
    assert [(response.status_code, response.json()["sha256"]) for response in responses] == [(200, sha256)] * 3
    # Each response has a signed URL of its own.
    assert {**responses[0].json(), "url": None} == {**(await catalog_api.call("GET", address)).json(), "url": None}
    # The signed URL still works, but writes an object that no request reads.
    await catalog_api.put(created["upload"], PNG)
    kept = [entry.key async for entry in plane.rooms.storage.list(f"catalog/assets/{asset_id}")]
    assert len(kept) == 2
    actions = [entry["action"] for entry in await audit(catalog_api, subject_type="asset", subject_id=asset_id)]
    assert actions == ["asset.confirm", "asset.create"]
    ready = (await catalog_api.call("GET", "/api/admin/assets?status=ready&limit=1")).json()
    assert [item["id"] for item in ready["items"]] == [asset_id]


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"mime_type": "text/html"}, ["mime_type"]),
        ({"size": 0}, ["size"]),
        ({"size": 2**53}, ["size"]),
        ({"sha256": "x"}, ["sha256"]),
        ({"name": "a\0"}, ["name"]),
    ],
    ids=str,
)
async def test_a_bad_asset_is_refused(catalog_api: CatalogApi, change: dict[str, Any], fields: list[str]) -> None:
    declared = {"name": "x.png", "mime_type": "image/png", "size": 5, **change}
    assert_refused(await catalog_api.call("POST", "/api/admin/assets", declared), 422, "invalid_request", *fields)


@pytest.mark.parametrize(
    ("declared", "content", "field"),
    [
        ({"size": len(PNG) + 1}, PNG, "size"),
        ({"mime_type": "video/mp4", "size": len(PNG)}, PNG, "mime_type"),
        ({"size": 20}, b"MZ" + bytes(18), "mime_type"),
    ],
    ids=["shorter", "an image", "a program"],
)
async def test_an_upload_that_differs_from_its_declaration_is_not_confirmed(
    catalog_api: CatalogApi, plane: ControlPlane, declared: dict[str, Any], content: bytes, field: str
) -> None:
    created = await catalog_api.made("/api/admin/assets", {"name": "x", "mime_type": "image/png", **declared})
    # As if the storage had not looked: what is checked is what is there.
    asset_id = created["asset"]["id"]
    await plane.rooms.storage.put(f"catalog/assets/{asset_id}/upload", content, content_type="image/png")
    refused = await catalog_api.call("POST", f"/api/admin/assets/{asset_id}/confirm")
    assert_refused(refused, 422, "content_mismatch", field)
    assert (await catalog_api.call("GET", f"/api/admin/assets/{asset_id}")).json()["status"] == "pending"
    assert len([entry async for entry in plane.rooms.storage.list(f"catalog/assets/{asset_id}")]) == 1


async def test_a_checksum_that_does_not_match_is_not_confirmed(catalog_api: CatalogApi, plane: ControlPlane) -> None:
    wrong = {"name": "x", "mime_type": "image/png", "size": len(PNG), "sha256": "0" * 64}
    asset_id = (await catalog_api.made("/api/admin/assets", wrong))["asset"]["id"]
    await plane.rooms.storage.put(f"catalog/assets/{asset_id}/upload", PNG, content_type="image/png")
    refused = await catalog_api.call("POST", f"/api/admin/assets/{asset_id}/confirm")
    assert_refused(refused, 422, "content_mismatch", "sha256")


async def test_unknown_workflows_effects_and_assets_are_not_found(catalog_api: CatalogApi, ann: Person) -> None:
    for method, path, body in (
        ("GET", "/api/admin/workflows/no-such", None),
        ("PATCH", "/api/admin/workflows/no-such", {"name": "x"}),
        ("POST", "/api/admin/workflows/no-such/activate", None),
        ("POST", "/api/admin/workflows/no-such/deactivate", None),
        ("GET", "/api/admin/effects/no-such", None),
        ("GET", f"/api/admin/effects/{uuid7()}", None),
        ("GET", "/api/effects/no-such", None),
        ("GET", f"/api/admin/assets/{uuid7()}", None),
        ("POST", f"/api/admin/assets/{uuid7()}/confirm", None),
    ):
        assert_refused(await catalog_api.call(method, path, body), 404, "not_found")
    nonsense = await catalog_api.call("GET", "/api/effects/Not%20A%20Slug", person=ann)
    assert_refused(nonsense, 422, "invalid_request", "path.effect")


ADMIN_ROUTES = [
    ("GET", "/api/admin/workflows"),
    ("POST", "/api/admin/workflows"),
    ("GET", "/api/admin/workflows/x"),
    ("PATCH", "/api/admin/workflows/x"),
    ("POST", "/api/admin/workflows/x/activate"),
    ("POST", "/api/admin/workflows/x/deactivate"),
    ("GET", "/api/admin/effects"),
    ("POST", "/api/admin/effects"),
    ("GET", "/api/admin/effects/x"),
    ("PATCH", "/api/admin/effects/x"),
    ("DELETE", "/api/admin/effects/x"),
    ("GET", "/api/admin/assets"),
    ("POST", "/api/admin/assets"),
    ("GET", "/api/admin/assets/01900000-0000-7000-8000-000000000000"),
    ("POST", "/api/admin/assets/01900000-0000-7000-8000-000000000000/confirm"),
    ("GET", "/api/admin/audit-logs"),
]


@pytest.mark.few_forms
@pytest.mark.parametrize(("method", "path"), ADMIN_ROUTES)
async def test_the_catalog_is_changed_by_admins_only(
    catalog_api: CatalogApi, ann: Person, method: str, path: str
) -> None:
    assert_refused(await catalog_api.client.request(method, path), 401, "not_authenticated")
    assert_refused(await catalog_api.client.request(method, path, headers=ann.headers), 403, "forbidden")


@pytest.mark.parametrize("path", ["/api/effects", "/api/effects/x"])
async def test_effects_are_shown_to_signed_in_users_only(catalog_api: CatalogApi, path: str) -> None:
    assert_refused(await catalog_api.client.get(path), 401, "not_authenticated")


async def test_the_audit_log_is_read_page_by_page_and_by_filter(catalog_api: CatalogApi) -> None:
    made = await catalog_api.workflow()
    await catalog_api.call("POST", f"/api/admin/workflows/{made['slug']}/deactivate")
    actor = f"admin:{catalog_api.admin.user.id}"
    mine = await audit(catalog_api, actor=actor)
    assert [entry["action"] for entry in mine] == [
        "workflow.update",
        "workflow.create",
        "asset.confirm",
        "asset.create",
    ]
    page = await catalog_api.client.get(
        "/api/admin/audit-logs", params={"actor": actor, "limit": 3}, headers=catalog_api.admin.headers
    )
    cursor = page.json()["next_cursor"]
    assert await audit(catalog_api, actor=actor, cursor=cursor) == mine[3:]
    assert await audit(catalog_api, actor=actor, action="workflow.create") == mine[1:2]
    assert await audit(catalog_api, actor=actor, subject_type="asset") == mine[2:]
    assert await audit(catalog_api, subject_id=made["slug"]) == mine[:2]
    assert await audit(catalog_api, subject_type="workflow", subject_id=made["slug"], actor="nobody") == []
    assert (
        await audit(catalog_api, subject_type="workflow", subject_id=made["slug"], action="workflow.create")
        == mine[1:2]
    )
    wrong = await catalog_api.call("GET", "/api/admin/audit-logs?cursor=0")
    assert_refused(wrong, 422, "invalid_request", "query.cursor")


async def test_a_refused_change_is_not_in_the_audit_log(catalog_api: CatalogApi) -> None:
    before = await audit(catalog_api, actor=f"admin:{catalog_api.admin.user.id}")
    made = workflow(catalog_api.asset, output_node_id="77")
    assert_refused(
        await catalog_api.call("POST", "/api/admin/workflows", made), 422, "invalid_request", "output_node_id"
    )
    twin = await catalog_api.workflow()
    assert_refused(
        await catalog_api.call("POST", "/api/admin/workflows", workflow(catalog_api.asset, slug=twin["slug"])),
        409,
        "conflict",
        "slug",
    )
    after = await audit(catalog_api, actor=f"admin:{catalog_api.admin.user.id}")
    assert [entry["action"] for entry in after[: len(after) - len(before)]] == ["workflow.create"]


async def test_an_effect_whose_provider_no_worker_serves_is_created_with_a_warning(catalog_api: CatalogApi) -> None:
    made = await catalog_api.workflow()
    assert (await catalog_api.effect(made["slug"]))["warnings"] == []
    effect = await catalog_api.effect(made["slug"], provider="clowd")
    assert effect["warnings"] == [
        "No worker serves the provider 'clowd': jobs of this effect wait until one registers."
    ]
