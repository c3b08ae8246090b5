"""What operators need to edit workflows: proposals, versions, test runs, fleets, and assets that can be deleted."""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.plumbing.failpoints import Crashed, Failpoint, armed, crash
from callsheet.wire.identity import Role
from tests.support.http.accounts import People
from tests.support.http.catalog_api import GRAPH, MP4, PNG, PRIMARY, CatalogApi
from tests.support.http.responses import assert_refused

EXPORT: dict[str, Any] = {
    "1": {"class_type": "LoadImage", "inputs": {"image": "cat.png"}},
    "3": {"class_type": "CLIPTextEncode", "inputs": {"text": "a cat", "clip": ["4", 1]}},
    "4": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "sd15.safetensors"}},
    "5": {
        "class_type": "KSampler",
        "inputs": {"seed": 2**64 - 1, "tiled": True, "positive": ["3", 0], "latent_image": ["1", 0]},
    },
    "9": {"class_type": "SaveImage", "inputs": {"images": ["5", 0], "filename_prefix": "cats"}},
}
PROPOSALS = "/api/admin/workflows/proposals"


@pytest.fixture
async def catalog_api(plane: ControlPlane, client: httpx.AsyncClient, people: People) -> CatalogApi:
    return await CatalogApi.open(plane, client, people)


async def proposed(catalog_api: CatalogApi, graph: Any, **fields: Any) -> dict[str, Any]:
    response = await catalog_api.call("POST", PROPOSALS, {"graph": graph, **fields})
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


async def test_an_export_gets_properties_outputs_and_the_types_that_its_inputs_can_have(
    catalog_api: CatalogApi,
) -> None:
    found = await proposed(catalog_api, EXPORT)
    assert {each["key"]: each["type"] for each in found["properties"]} == {"input": "image", "prompt": "text"}
    assert found["graph"]["3"]["inputs"]["text"] == "{{prompt}}"
    assert [output["node_id"] for output in found["outputs"]] == ["9"]
    types = {(each["node_id"], each["name"]): (each["value"], each["types"]) for each in found["inputs"]}
    assert types == {
        ("1", "image"): ("cat.png", ["image", "video", "audio", "choice"]),
        ("3", "text"): ("a cat", ["text", "choice"]),
        ("4", "ckpt_name"): ("sd15.safetensors", ["choice"]),
        ("5", "seed"): (2**64 - 1, ["number", "choice"]),
        ("5", "tiled"): (True, ["boolean"]),
        ("9", "filename_prefix"): ("cats", ["choice"]),
    }
    everything = await proposed(catalog_api, {"prompt": EXPORT}, everything=True)
    assert "seed" in [each["key"] for each in everything["properties"]]


async def test_each_type_that_is_offered_for_an_input_can_be_saved(catalog_api: CatalogApi) -> None:
    found = await proposed(catalog_api, EXPORT)
    choices = [(each, kind) for each in found["inputs"] for kind in each["types"]]
    for number, (each, kind) in enumerate(choices):
        is_file = kind in ("image", "video", "audio")
        placeholder = "__INPUT_PATH__" if is_file else "{{value}}"
        graph = copy.deepcopy(EXPORT)
        graph[each["node_id"]]["inputs"][each["name"]] = placeholder
        wanted = {"key": "value", "type": kind, "placeholder": placeholder, "is_primary_input": is_file}
        wanted |= {} if is_file else {"default": each["value"]}
        wanted |= {"limits": {"choices": [each["value"]]}} if kind == "choice" else {}
        png = {"output_node_id": "9", "output_extension": "png", "output_mime_type": "image/png"}
        await catalog_api.workflow(slug=f"typed-{number}", graph=graph, properties=[wanted], **png)


async def test_a_body_with_a_byte_order_mark_is_read(catalog_api: CatalogApi) -> None:
    """A script on Windows may send a file as it is."""
    headers = catalog_api.admin.headers | {"content-type": "application/json"}
    content = b"\xef\xbb\xbf" + json.dumps({"graph": EXPORT}).encode()
    response = await catalog_api.client.post(PROPOSALS, content=content, headers=headers)
    assert response.status_code == 200, response.text
    assert response.json() == await proposed(catalog_api, EXPORT)


async def test_a_proposal_for_the_ui_format_says_what_to_do(catalog_api: CatalogApi) -> None:
    refused = await catalog_api.call("POST", PROPOSALS, {"graph": {"nodes": [], "links": []}})
    assert "Export (API)" in assert_refused(refused, 422, "invalid_request", "graph")["detail"]


async def versions_of(catalog_api: CatalogApi, slug: str) -> list[dict[str, Any]]:
    response = await catalog_api.call("GET", f"/api/admin/workflows/{slug}/versions")
    assert response.status_code == 200, response.text
    return list(response.json()["items"])


async def test_each_change_of_a_workflow_is_a_version_that_can_be_read(catalog_api: CatalogApi) -> None:
    made = await catalog_api.workflow()
    path = f"/api/admin/workflows/{made['slug']}"
    graph = copy.deepcopy(GRAPH)
    graph["5"]["inputs"]["steps"] = 30
    assert (await catalog_api.call("PATCH", path, {"graph": graph, "name": "Better"})).is_success
    # A switch is not a version, and a change to the same values is not one either.
    assert (await catalog_api.call("POST", f"{path}/deactivate")).is_success
    assert (await catalog_api.call("PATCH", path, {"name": "Better"})).is_success
    listed = await versions_of(catalog_api, made["slug"])
    assert [(each["version"], each["name"]) for each in listed] == [(2, "Better"), (1, "Stylize")]
    operator = catalog_api.admin.user
    assert {(each["actor"], each["actor_email"]) for each in listed} == {(f"admin:{operator.id}", operator.email)}
    first, second = [(await catalog_api.call("GET", f"{path}/versions/{number}")).json() for number in (1, 2)]
    assert (first["graph"], second["graph"]) == (GRAPH, graph)
    assert first["actor_email"] == operator.email
    assert first["properties"] == made["properties"]
    assert_refused(await catalog_api.call("GET", f"{path}/versions/3"), 404, "not_found")
    assert_refused(await catalog_api.call("GET", "/api/admin/workflows/missing/versions"), 404, "not_found")


async def test_a_change_of_an_outdated_version_is_refused(catalog_api: CatalogApi) -> None:
    made = await catalog_api.workflow()
    path = f"/api/admin/workflows/{made['slug']}"
    assert made["version"] == 1
    first = await catalog_api.call("PATCH", path, {"name": "First", "version": 1})
    assert first.json()["version"] == 2
    second = await catalog_api.call("PATCH", path, {"name": "Second", "version": 1})
    assert "version 2" in assert_refused(second, 409, "wrong_state", "version")["detail"]
    kept = (await catalog_api.call("GET", path)).json()
    assert (kept["name"], kept["version"]) == ("First", 2)


async def test_versions_are_listed_page_by_page(catalog_api: CatalogApi) -> None:
    made = await catalog_api.workflow()
    path = f"/api/admin/workflows/{made['slug']}"
    for name in ("Two", "Three"):
        assert (await catalog_api.call("PATCH", path, {"name": name})).is_success
    page = (await catalog_api.call("GET", f"{path}/versions?limit=2")).json()
    assert [each["version"] for each in page["items"]] == [3, 2]
    rest = (await catalog_api.call("GET", f"{path}/versions?limit=2&cursor={page['next_cursor']}")).json()
    assert ([each["version"] for each in rest["items"]], rest["next_cursor"]) == ([1], None)


async def test_the_workflow_of_an_actor_is_kept_as_a_version_before_its_first_change(
    catalog_api: CatalogApi, plane: ControlPlane
) -> None:
    await plane.rooms.tasks.actors.keep()
    path = "/api/admin/workflows/actor:copy"
    actor = (await catalog_api.call("GET", path)).json()
    assert actor["version"] is None
    assert (await catalog_api.call("PATCH", path, {"name": "New"})).is_success
    versions = await versions_of(catalog_api, actor["slug"])
    assert [(each["version"], each["name"], each["actor"] is None) for each in versions] == [
        (2, "New", False),
        (1, actor["name"], True),
    ]


async def test_a_workflow_with_versions_can_be_deleted(catalog_api: CatalogApi) -> None:
    made = await catalog_api.workflow(is_active=False)
    assert (await catalog_api.call("DELETE", f"/api/admin/workflows/{made['slug']}")).status_code == 204
    assert_refused(await catalog_api.call("GET", f"/api/admin/workflows/{made['slug']}/versions"), 404, "not_found")


async def test_a_test_run_is_a_free_job_of_the_operator_with_any_value(
    catalog_api: CatalogApi, plane: ControlPlane
) -> None:
    made = await catalog_api.workflow()
    file_id = await catalog_api.file(catalog_api.admin)
    # Users cannot set the seed of this workflow.
    body = {"input_file_id": file_id, "input_payload": {"prompt": "a dog", "seed": 11}}
    job = await catalog_api.made(f"/api/admin/workflows/{made['slug']}/test-runs", body)
    assert (job["cost"], job["status"], job["effect_id"]) == (0, "queued", None)
    shown = (await catalog_api.call("GET", f"/api/ai-jobs/{job['id']}")).json()
    assert (shown["title"], shown["prompt"]) == ("Stylize", "a dog")
    payload = await payload_of(plane, job["id"])
    assert payload["workflow"]["5"]["inputs"]["seed"] == 11
    assert payload["workflow"]["3"]["inputs"]["text"] == "a dog, in a noir look"


async def test_a_draft_is_tested_without_being_saved(catalog_api: CatalogApi, plane: ControlPlane) -> None:
    made = await catalog_api.workflow()
    path = f"/api/admin/workflows/{made['slug']}"
    graph = {"1": GRAPH["1"], "9": {"class_type": "SaveVideo", "inputs": {"video": ["1", 0], "codec": "vp9"}}}
    draft = {"graph": graph, "properties": [PRIMARY]}
    body = {"input_file_id": await catalog_api.file(catalog_api.admin), "draft": draft}
    job = await catalog_api.made(f"{path}/test-runs", body)
    assert (await payload_of(plane, job["id"]))["workflow"] == graph
    assert (await catalog_api.call("GET", path)).json() == made
    bad = {**body, "draft": {**draft, "properties": [{**PRIMARY, "placeholder": "__OTHER__"}]}}
    refused = await catalog_api.call("POST", f"{path}/test-runs", bad)
    assert_refused(refused, 422, "invalid_request", "draft.properties.0.placeholder", "draft.properties")


async def test_a_test_run_takes_the_values_of_an_effect(catalog_api: CatalogApi, plane: ControlPlane) -> None:
    made = await catalog_api.workflow()
    path = f"/api/admin/workflows/{made['slug']}/test-runs"
    asset = await catalog_api.add_asset()
    body = {"input_file_id": await catalog_api.file(catalog_api.admin), "input_payload": {"prompt": "a dog"}}
    job = await catalog_api.made(path, {**body, "overrides": {"overlay": asset, "seed": 12}})
    payload = await payload_of(plane, job["id"])
    assert payload["workflow"]["5"]["inputs"]["seed"] == 12
    assert [each.get("asset_id") for each in payload["assets"]] == [None, asset]
    wrong = await catalog_api.call("POST", path, {**body, "overrides": {"seed": "high", "gone": 1}})
    assert_refused(wrong, 422, "invalid_request", "overrides.seed", "overrides.gone")


async def payload_of(plane: ControlPlane, job_id: str) -> dict[str, Any]:
    for pool in plane.databases.pools:
        async with pool.connection() as connection:
            found = await connection.fetchval("SELECT payload FROM ai_jobs WHERE id = $1", job_id)
        if found is not None:
            payload: dict[str, Any] = found
            return payload
    raise AssertionError(f"no job {job_id}")


async def test_a_test_run_that_cannot_run_is_refused(catalog_api: CatalogApi, people: People) -> None:
    made = await catalog_api.workflow()
    path = f"/api/admin/workflows/{made['slug']}/test-runs"
    assert_refused(await catalog_api.call("POST", path, {}), 422, "invalid_request", "input_payload.prompt")
    prompt = {"input_payload": {"prompt": "a cat"}}
    assert_refused(await catalog_api.call("POST", path, prompt), 422, "invalid_request", "input_file_id")
    both = {**prompt, "video_id": made_up(1), "input_file_id": made_up(2)}
    assert_refused(await catalog_api.call("POST", path, both), 422, "invalid_request", "input_file_id")
    of_another = await catalog_api.file(await catalog_api.person())
    foreign = {**prompt, "input_file_id": of_another}
    assert_refused(await catalog_api.call("POST", path, foreign), 422, "invalid_request", "input_file_id")
    assert (await catalog_api.call("POST", f"/api/admin/workflows/{made['slug']}/deactivate")).is_success
    off = assert_refused(await catalog_api.call("POST", path, prompt), 409, "wrong_state")
    assert "not active" in off["detail"]
    viewer = await people.user(role=Role.VIEWER)
    assert (await catalog_api.call("POST", path, prompt, person=viewer)).status_code == 403


def made_up(number: int) -> str:
    return f"01900000-0000-7000-8000-{number:012}"


async def test_a_workflow_is_added_to_a_fleet_and_taken_from_it(catalog_api: CatalogApi) -> None:
    one, two = [(await catalog_api.workflow())["slug"] for _ in range(2)]
    fleet = await catalog_api.made("/api/admin/fleets", {"slug": one, "workflow_slugs": [one]})
    path = f"/api/admin/fleets/{fleet['id']}/workflows"
    for _ in range(2):
        added = await catalog_api.call("PATCH", path, {"add": [two, two]})
        assert sorted(added.json()["workflows"]) == sorted([one, two])
    for _ in range(2):
        assert (await catalog_api.call("PATCH", path, {"remove": [two]})).json()["workflows"] == [one]
    assert (await catalog_api.call("PATCH", path, {"add": [two], "remove": [one]})).json()["workflows"] == [two]
    assert (await catalog_api.call("PATCH", path, {})).json()["workflows"] == [two]
    for field in ("add", "remove"):
        missing = await catalog_api.call("PATCH", path, {field: [one, "missing"]})
        problem = assert_refused(missing, 422, "invalid_request", f"{field}.1")
        assert problem["detail"] == "There is no workflow missing."
    both = assert_refused(
        await catalog_api.call("PATCH", path, {"add": [one], "remove": [one]}), 422, "invalid_request", "body"
    )
    assert both["errors"][0]["reason"] == f"Send '{one}' in `add` or in `remove`, not in both."
    assert_refused(await catalog_api.call("PATCH", path, {"replace": [one]}), 422, "invalid_request", "replace")
    unknown = await catalog_api.call("PATCH", "/api/admin/fleets/99999999/workflows", {"add": [one]})
    assert_refused(unknown, 404, "not_found")
    assert (await catalog_api.call("GET", f"/api/admin/fleets/{fleet['id']}")).json()["workflows"] == [two]


async def asset_of(catalog_api: CatalogApi, asset_id: str) -> dict[str, Any]:
    page = (await catalog_api.call("GET", "/api/admin/assets?limit=200")).json()
    found: dict[str, Any] = next((each for each in page["items"] if each["id"] == asset_id), {})
    return found


async def test_an_asset_shows_its_file_and_what_uses_it(catalog_api: CatalogApi) -> None:
    asset = await catalog_api.add_asset()
    shown = await asset_of(catalog_api, asset)
    assert (await catalog_api.client.get(shown["url"])).content == PNG
    assert shown["used_by"] == []
    # The workflow names another asset; only the effect names this one.
    effect = await catalog_api.effect(overrides={"overlay": asset})
    used = {"type": "effect", "slug": effect["slug"], "name": effect["name"]}
    assert (await asset_of(catalog_api, asset))["used_by"] == [used]
    uses = (await asset_of(catalog_api, catalog_api.asset))["used_by"]
    assert {"type": "workflow", "slug": effect["workflow"], "name": "Stylize"} in uses
    refused = assert_refused(await catalog_api.call("DELETE", f"/api/admin/assets/{asset}"), 409, "in_use")
    assert effect["slug"] in refused["detail"]


async def test_a_deleted_asset_is_gone_for_users_and_stays_for_jobs_until_they_have_ended(
    catalog_api: CatalogApi, plane: ControlPlane
) -> None:
    asset = await catalog_api.add_asset()
    effect = await catalog_api.effect(overrides={"overlay": asset})
    person = await catalog_api.person()
    job = await catalog_api.submit(person, effect, video_id=await catalog_api.video(person))
    [file] = [each for each in (await payload_of(plane, job["id"]))["assets"] if each.get("asset_id") == asset]
    changed = await catalog_api.call("PATCH", f"/api/admin/effects/{effect['slug']}", {"overrides": {}})
    assert changed.is_success, changed.text
    assert (await catalog_api.call("DELETE", f"/api/admin/assets/{asset}")).status_code == 204
    assert await asset_of(catalog_api, asset) == {}
    assert_refused(await catalog_api.call("GET", f"/api/admin/assets/{asset}"), 404, "not_found")
    assert_refused(await catalog_api.call("DELETE", f"/api/admin/assets/{asset}"), 404, "not_found")
    again = await catalog_api.call("PATCH", f"/api/admin/effects/{effect['slug']}", {"overrides": {"overlay": asset}})
    assert_refused(again, 422, "invalid_request", "overrides.overlay")

    loop = plane.rooms.catalog.deleted_assets
    lifetime = timedelta(seconds=plane.settings.jobs.lifetime_seconds)
    await loop.tick(datetime.now(UTC))
    assert await plane.rooms.storage.read(file["path"], 10_000) == PNG
    with armed({Failpoint.CATALOG_BEFORE_ROW: crash}), pytest.raises(Crashed):
        await loop.tick(datetime.now(UTC) + lifetime + timedelta(minutes=5))
    await loop.tick(datetime.now(UTC) + lifetime + timedelta(minutes=5))
    assert await plane.rooms.storage.head(file["path"]) is None
    async with plane.databases.central.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM catalog_assets WHERE id = $1", asset) == 0


async def test_an_asset_that_was_never_uploaded_can_be_deleted(catalog_api: CatalogApi) -> None:
    declared = {"name": "a.mp4", "mime_type": "video/mp4", "size": len(MP4)}
    pending = (await catalog_api.made("/api/admin/assets", declared))["asset"]
    assert pending["url"] is None
    assert (await catalog_api.call("DELETE", f"/api/admin/assets/{pending['id']}")).status_code == 204
    confirmed = await catalog_api.call("POST", f"/api/admin/assets/{pending['id']}/confirm")
    assert_refused(confirmed, 404, "not_found")
