"""Routes for the design of a pipeline: workflows for its steps, templates, versions, and a dry run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from tests.api.test_pipelines import STYLED, PipelinesApi, problems
from tests.support.http.accounts import People
from tests.support.http.catalog_api import CatalogApi
from tests.support.pipelines.pipeline_harness import BASE, FIX

TEXT = {"type": "text", "user_configurable": True, "required": True}
PROMPT = {**TEXT, "key": "prompt", "placeholder": "__WORDS__", "label": "Words"}
IMAGE = {"key": "input", "type": "image", "placeholder": "__INPUT_PATH__", "is_primary_input": True}
SEED = {"key": "seed", "type": "number", "placeholder": "{{seed}}", "default": 1, "user_configurable": True}
PAINT: dict[str, Any] = {
    "1": {"class_type": "PaintPicture", "inputs": {"text": "__WORDS__", "seed": "{{seed}}"}},
    "9": {"class_type": "SaveImage", "inputs": {"images": ["1", 0]}},
}
VARY: dict[str, Any] = {
    "1": {"class_type": "LoadImage", "inputs": {"image": "__INPUT_PATH__"}},
    "2": {"class_type": "ImageBlur", "inputs": {"image": ["1", 0], "seed": "{{seed}}"}},
    "9": {"class_type": "SaveImage", "inputs": {"images": ["2", 0]}},
}


@pytest.fixture
async def pipelines_api(plane: ControlPlane) -> AsyncIterator[PipelinesApi]:
    async with httpx.AsyncClient(base_url=plane.settings.public_url, trust_env=False, timeout=30) as client:
        catalog_api = await CatalogApi.open(
            plane, client, People(plane.rooms.identity.accounts, plane.rooms.identity.keys)
        )
        yield PipelinesApi(catalog_api, await catalog_api.person())


async def step_workflows(api: PipelinesApi) -> dict[str, dict[str, Any]]:
    response = await api.call("GET", "/api/pipeline-workflows?limit=200")
    assert response.status_code == 200, response.text
    return {each["workflow"]: each for each in response.json()["items"]}


async def test_only_published_workflows_that_make_images_are_offered_for_steps(pipelines_api: PipelinesApi) -> None:
    base, fix, styled = [await pipelines_api.workflow(graph) for graph in (BASE, FIX, STYLED)]
    paint = await pipelines_api.workflow(PAINT, properties=[PROMPT, SEED])
    vary = await pipelines_api.workflow(VARY, properties=[IMAGE, SEED])
    unsold = await pipelines_api.workflow(BASE, sold=False)
    video = await pipelines_api.workflow(BASE, output_extension="mp4", output_mime_type="video/mp4")
    found = await step_workflows(pipelines_api)
    assert not {unsold, video} & found.keys()
    assert found[base]["placeholders"] == ["prompt"]
    assert (found[base]["takes_image"], found[fix]["takes_image"], found[fix]["needs_image"]) == (False, True, False)
    assert found[styled]["placeholders"] == ["style"]
    assert (found[paint]["prompt_property"], found[paint]["seed_property"]) == ("prompt", "seed")
    assert [each["key"] for each in found[paint]["properties"]] == ["prompt", "seed"]
    assert (found[vary]["takes_image"], found[vary]["needs_image"], found[vary]["credits_cost"]) == (True, True, 3)
    assert [each["key"] for each in found[vary]["properties"]] == ["seed"]


async def test_workflows_for_steps_come_in_pages(pipelines_api: PipelinesApi) -> None:
    for _ in range(3):
        await pipelines_api.workflow(BASE)
    every, seen, cursor = await step_workflows(pipelines_api), list[str](), None
    while True:
        after = f"&cursor={cursor}" if cursor else ""
        page = (await pipelines_api.call("GET", f"/api/pipeline-workflows?limit=2{after}")).json()
        seen += [each["workflow"] for each in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert sorted(seen) == sorted(every)


async def test_every_offered_template_can_be_created_and_started_unchanged(pipelines_api: PipelinesApi) -> None:
    # Free, so that they are the cheapest that the installation has.
    for graph, properties in ((PAINT, [PROMPT, SEED]), (VARY, [IMAGE, SEED])):
        slug = await pipelines_api.workflow(graph, sold=False, properties=properties)
        await pipelines_api.catalog_api.effect(slug, credits_cost=0)
    templates = (await pipelines_api.call("GET", "/api/pipeline-templates")).json()
    assert [each["slug"] for each in templates] == ["explore-an-idea", "shortlist", "one-prompt-many-images"]
    for each in templates:
        made = await pipelines_api.define(each["steps"])
        assert made.status_code == 201, made.text
        run = {**each["run"], "budget": max(1, each["cost"])}
        started = await pipelines_api.begin(made.json(), **run)
        assert started.status_code == 201, started.text


async def test_a_list_has_the_chain_and_the_newest_run_of_each_pipeline(pipelines_api: PipelinesApi) -> None:
    steps = await pipelines_api.steps()
    without, made = await pipelines_api.pipeline(steps[:1]), await pipelines_api.pipeline(steps)
    await pipelines_api.begin(made, name="First")
    newest = (await pipelines_api.begin(made, name="Second")).json()
    await pipelines_api.call("PATCH", f"/api/pipelines/{made['slug']}", {"steps": [{**steps[0], "max_children": 2}]})
    listed = (await pipelines_api.call("GET", "/api/pipelines")).json()["items"]
    assert [each["id"] for each in listed] == [made["id"], without["id"]]
    assert [(step["name"], step["max_children"]) for step in listed[0]["chain"]] == [("Base", 2)]
    last = listed[0]["last_run"]
    assert (last["id"], last["name"], last["status"], last["reason"]) == (newest["id"], "Second", "active", None)
    assert (listed[1]["last_run"], len(listed[1]["chain"])) == (None, 1)


async def test_versions_of_a_pipeline_are_read_with_their_steps(pipelines_api: PipelinesApi) -> None:
    steps = await pipelines_api.steps()
    made = await pipelines_api.pipeline(steps)
    path = f"/api/pipelines/{made['slug']}"
    for children in (2, 3):
        await pipelines_api.call("PATCH", path, {"steps": [{**steps[0], "max_children": children}, steps[1]]})
    versions = (await pipelines_api.call("GET", f"{path}/versions")).json()
    assert [each["version"] for each in versions["items"]] == [3, 2, 1]
    assert [each["steps"][0]["max_children"] for each in versions["items"]] == [3, 2, 5]
    assert versions["items"][2]["steps"] == made["steps"]
    times = [each["created_at"] for each in versions["items"]]
    assert times == sorted(times, reverse=True)
    first = (await pipelines_api.call("GET", f"{path}/versions?limit=2")).json()
    assert ([each["version"] for each in first["items"]], first["next_cursor"]) == ([3, 2], "2")
    rest = (await pipelines_api.call("GET", f"{path}/versions?limit=2&cursor=2")).json()
    assert ([each["version"] for each in rest["items"]], rest["next_cursor"]) == ([1], None)
    assert (await pipelines_api.call("GET", f"{path}/versions?cursor=1")).json()["items"] == []
    assert (await pipelines_api.call("GET", "/api/pipelines/none/versions")).status_code == 404


async def test_a_page_of_versions_is_cut_when_their_payloads_are_too_large_and_has_a_cursor(
    plane: ControlPlane, pipelines_api: PipelinesApi
) -> None:
    """A page has one version at least; no version is left out or comes twice."""
    steps = await pipelines_api.steps()
    made = await pipelines_api.pipeline(steps)
    path = f"/api/pipelines/{made['slug']}"
    for children in range(2, 8):
        await pipelines_api.call("PATCH", path, {"steps": [{**steps[0], "max_children": children}]})
    pool = await plane.databases.pool(pipelines_api.ann.tenant.pool)
    megabyte = 2**20
    async with pool.connection() as connection:
        for version, size in {7: 10, 6: 3 * megabyte, 5: megabyte, 4: 5 * megabyte, 3: 10}.items():
            await connection.execute(
                """WITH new_document AS (
                       INSERT INTO step_documents (tenant_id, pipeline_id, digest, payload, "values")
                       SELECT tenant_id, id, sha256($2::integer::text::bytea),
                           jsonb_build_object('text', repeat('p', $3)), '{}'
                       FROM pipelines WHERE id = $1
                       RETURNING digest
                   )
                   UPDATE pipeline_steps SET document = (SELECT digest FROM new_document)
                   WHERE pipeline_id = $1 AND version = $2::integer""",
                UUID(made["id"]),
                version,
                size,
            )
    pages: list[list[int]] = []
    cursor = ""
    while cursor is not None:
        page = (await pipelines_api.call("GET", f"{path}/versions{cursor}")).json()
        pages.append([each["version"] for each in page["items"]])
        cursor = page["next_cursor"] and f"?cursor={page['next_cursor']}"
    assert pages == [[7, 6, 5], [4], [3, 2, 1]]


async def test_a_preview_names_the_field_of_a_wrong_step_and_of_a_wrong_value(pipelines_api: PipelinesApi) -> None:
    paint = await pipelines_api.workflow(PAINT, properties=[{**PROMPT, "limits": {"max_length": 20}}, SEED])
    step = {"name": "Base", "workflow": paint, "values": {"prompt": "{{prompt}} {{style}}"}}
    response = await pipelines_api.call("POST", "/api/pipelines/preview", {"steps": [step]})
    assert problems(response).keys() == {"steps.0.values.prompt"}
    whole = {**step, "needs_run_prompt": True, "needs_run_variables": True}
    body = {"steps": [whole], "prompt": "a gym", "target_leaves": 3}
    shown = (await pipelines_api.call("POST", "/api/pipelines/preview", body)).json()
    assert [each["field"] for each in shown["problems"]] == ["variables.style"]
    assert (shown["jobs"], shown["cost"], "style" in shown["variables"], shown["first_job"]) == (3, 9, True, None)
    shown = (
        await pipelines_api.call("POST", "/api/pipelines/preview", {**body, "variables": {"style": "in oil"}})
    ).json()
    assert shown["problems"] == []
    assert shown["first_job"]["values"]["prompt"] == "a gym in oil"
    assert (shown["first_job"]["graph"], shown["first_job"]["cost"]) == (None, 3)
    # The text that a run makes of it must fit, and the message names what the run has given.
    long = {**body, "variables": {"style": "in the manner of everyone"}}
    shown = (await pipelines_api.call("POST", "/api/pipelines/preview", long)).json()
    assert [each["field"] for each in shown["problems"]] == ["prompt"]
    run = await pipelines_api.begin(await pipelines_api.pipeline([whole]))
    assert "needs this variable" in problems(run)["variables.style"]
