"""`/api/pipelines` and `/api/runs`: a request is valid, or refused with the field and the reason (G10)."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from tests.support.http.accounts import People, Person
from tests.support.http.catalog_api import CatalogApi
from tests.support.http.responses import assert_refused
from tests.support.pipelines.pipeline_harness import BASE, FIX
from tests.support.waiting import until

_numbers = itertools.count(1)
STRENGTH = {
    "key": "strength",
    "type": "number",
    "placeholder": "__STRENGTH__",
    "required": True,
    "user_configurable": True,
    "limits": {"min": 0, "max": 10},
}
STYLED: dict[str, Any] = {
    "1": {"class_type": "PaintPicture", "inputs": {"text": "in {{style}}"}},
    "9": {"class_type": "SaveImage", "inputs": {"images": ["1", 0]}},
}


@dataclass(frozen=True, slots=True)
class PipelinesApi:
    catalog_api: CatalogApi
    ann: Person

    async def workflow(self, graph: dict[str, Any], *, sold: bool = True, **changes: Any) -> str:
        image = {"output_extension": "png", "output_mime_type": "image/png", "properties": []}
        made = await self.catalog_api.workflow(graph=graph, **{**image, **changes})
        if sold:
            await self.catalog_api.effect(made["slug"], credits_cost=3)
        return str(made["slug"])

    async def steps(self) -> list[dict[str, Any]]:
        base, fix = await self.workflow(BASE), await self.workflow(FIX)
        return [
            {"name": "Base", "workflow": base, "needs_run_prompt": True},
            {"name": "Fix", "workflow": fix, "needs_parent_image_path": True},
        ]

    async def call(self, method: str, path: str, body: Any = None) -> httpx.Response:
        return await self.catalog_api.call(method, path, body, person=self.ann)

    async def define(self, steps: list[dict[str, Any]], **changes: Any) -> httpx.Response:
        request = {"slug": f"pipe-{next(_numbers)}", "name": "A pipeline", "steps": steps, **changes}
        return await self.call("POST", "/api/pipelines", request)

    async def pipeline(self, steps: list[dict[str, Any]] | None = None) -> dict[str, Any]:
        response = await self.define(steps or await self.steps())
        assert response.status_code == 201, response.text
        made: dict[str, Any] = response.json()
        return made

    async def begin(self, pipeline: dict[str, Any], **changes: Any) -> httpx.Response:
        request = {"name": "A run", "budget": 100, "prompt": "a gym", **changes}
        return await self.call("POST", f"/api/pipelines/{pipeline['slug']}/runs", request)


@pytest.fixture
async def pipelines_api(plane: ControlPlane) -> AsyncIterator[PipelinesApi]:
    async with httpx.AsyncClient(base_url=plane.settings.public_url, trust_env=False, timeout=30) as client:
        catalog_api = await CatalogApi.open(
            plane, client, People(plane.rooms.identity.accounts, plane.rooms.identity.keys)
        )
        yield PipelinesApi(catalog_api, await catalog_api.person())


def problems(response: httpx.Response, status: int = 422) -> dict[str, str]:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    return {error["field"]: error["reason"] for error in response.json()["errors"]}


async def test_a_pipeline_is_made_read_changed_and_deleted(pipelines_api: PipelinesApi) -> None:
    steps = await pipelines_api.steps()
    made = await pipelines_api.pipeline(steps)
    assert [(step["position"], step["slug"], step["max_children"]) for step in made["steps"]] == [
        (1, "base", 5),
        (2, "fix", 5),
    ]
    assert (await pipelines_api.call("GET", f"/api/pipelines/{made['id']}")).json() == made
    assert made["id"] in [each["id"] for each in (await pipelines_api.call("GET", "/api/pipelines")).json()["items"]]
    changed = await pipelines_api.call("PATCH", f"/api/pipelines/{made['slug']}", {"name": "Other", "steps": steps[:1]})
    assert (changed.json()["name"], changed.json()["version"], len(changed.json()["steps"])) == ("Other", 2, 1)
    assert (await pipelines_api.call("DELETE", f"/api/pipelines/{made['id']}")).status_code == 204
    assert (await pipelines_api.call("GET", f"/api/pipelines/{made['id']}")).status_code == 404


async def test_the_number_of_pipelines_of_a_user_and_of_their_versions_has_a_limit(pipelines_api: PipelinesApi) -> None:
    quotas = f"/api/admin/tenants/{pipelines_api.ann.tenant.id}/quotas"
    limits = {"pipelines_per_user": 1, "versions_per_pipeline": 2}
    assert (await pipelines_api.catalog_api.call("PATCH", quotas, limits)).status_code == 200
    steps = await pipelines_api.steps()
    made = await pipelines_api.pipeline(steps)
    problem = assert_refused(await pipelines_api.define(steps), 409, "quota_exceeded")
    assert (problem["quota"], problem["limit"], problem["used"]) == ("pipelines_per_user", 1, 1)
    path = f"/api/pipelines/{made['slug']}"
    assert (await pipelines_api.call("PATCH", path, {"steps": steps[:1]})).json()["version"] == 2
    problem = assert_refused(await pipelines_api.call("PATCH", path, {"steps": steps}), 409, "quota_exceeded")
    assert (problem["quota"], problem["limit"], problem["used"]) == ("versions_per_pipeline", 2, 2)
    # What makes no version is still possible.
    assert (await pipelines_api.call("PATCH", path, {"name": "Other", "steps": steps[:1]})).json()["version"] == 2
    assert (await pipelines_api.call("DELETE", path)).status_code == 204
    await pipelines_api.pipeline(steps)


async def test_a_step_with_a_large_payload_is_refused_by_its_field(pipelines_api: PipelinesApi) -> None:
    quotas = f"/api/admin/tenants/{pipelines_api.ann.tenant.id}/quotas"
    assert (await pipelines_api.catalog_api.call("PATCH", quotas, {"payload_bytes": 100})).status_code == 200
    [base, _] = await pipelines_api.steps()
    refused = problems(await pipelines_api.define([{**base, "values": {"style": "x" * 100}}]))
    assert "the limit is 100 (payload_bytes)" in refused["steps.0.values"]


async def test_a_dry_run_returns_what_would_be_created_and_writes_nothing(pipelines_api: PipelinesApi) -> None:
    steps = await pipelines_api.steps()
    request = {"slug": "planned", "name": "Planned", "steps": steps}
    planned = await pipelines_api.call("POST", "/api/pipelines?dry_run=true", request)
    assert (planned.status_code, planned.json()["version"], len(planned.json()["steps"])) == (200, 1, 2)
    assert (await pipelines_api.call("GET", "/api/pipelines/planned")).status_code == 404
    made = await pipelines_api.pipeline(steps)
    assert problems(
        await pipelines_api.call("POST", "/api/pipelines?dry_run=true", {**request, "slug": made["slug"]}), 409
    ) == {"slug": "This slug is already in use."}
    path = f"/api/pipelines/{made['slug']}"
    planned = await pipelines_api.call("PATCH", f"{path}?dry_run=true", {"name": "Other", "steps": steps[:1]})
    assert (planned.json()["name"], planned.json()["version"], len(planned.json()["steps"])) == ("Other", 2, 1)
    assert (await pipelines_api.call("GET", path)).json() == made
    wrong = {"steps": [{**steps[0], "workflow": "nowhere"}]}
    assert "steps.0.workflow" in problems(await pipelines_api.call("PATCH", f"{path}?dry_run=true", wrong))


async def test_a_slug_is_used_once_and_must_not_look_like_an_id(pipelines_api: PipelinesApi) -> None:
    made = await pipelines_api.pipeline()
    assert problems(await pipelines_api.define(await pipelines_api.steps(), slug=made["slug"]), 409) == {
        "slug": "This slug is already in use."
    }
    response = await pipelines_api.define(await pipelines_api.steps(), slug=made["id"])
    assert problems(response) == {"slug": "This slug looks like an id. Choose a name."}


@pytest.mark.parametrize(
    ("positions", "field", "reason"),
    [
        ((1, 1), "steps.1.position", "has the same position"),
        ((1, 3), "steps.1.position", "there is no step 2"),
        ((2, 3), "steps.0.position", "there is no step 1"),
        ((1, None), "steps.1.position", "This step needs a position, because other steps have one."),
    ],
)
async def test_a_cycle_or_a_gap_in_the_steps_is_refused(
    pipelines_api: PipelinesApi, positions: tuple[int | None, ...], field: str, reason: str
) -> None:
    steps = [{**step, "position": at} for step, at in zip(await pipelines_api.steps(), positions, strict=True)]
    assert reason in problems(await pipelines_api.define(steps))[field]


async def test_steps_may_be_sent_in_any_order(pipelines_api: PipelinesApi) -> None:
    base, fix = await pipelines_api.steps()
    made = await pipelines_api.pipeline([{**fix, "position": 2}, {**base, "position": 1}])
    assert [step["name"] for step in made["steps"]] == ["Base", "Fix"]


async def test_a_step_of_a_workflow_that_cannot_be_used_is_refused_with_its_field(pipelines_api: PipelinesApi) -> None:
    base, fix = await pipelines_api.steps()
    off = await pipelines_api.workflow(BASE)
    await pipelines_api.catalog_api.call("PATCH", f"/api/admin/workflows/{off}", {"is_active": False})
    unsold = await pipelines_api.workflow(BASE, sold=False)
    twice = await pipelines_api.workflow(BASE)
    await pipelines_api.catalog_api.effect(twice)
    for workflow, field, reason in (
        ("nobody-made-this", "workflow", "There is no workflow"),
        (off, "workflow", "is switched off"),
        (unsold, "workflow", "There is no workflow"),
        (twice, "effect", "Choose one effect"),
    ):
        response = await pipelines_api.define([{**base, "workflow": workflow}, fix])
        assert reason in problems(response)[f"steps.0.{field}"]
    response = await pipelines_api.define([{**base, "effect": "another-effect"}, fix])
    assert "no such published effect" in problems(response)["steps.0.effect"]


async def test_a_run_of_a_pipeline_with_a_disabled_workflow_is_a_conflict(
    pipelines_api: PipelinesApi,
) -> None:
    made = await pipelines_api.pipeline()
    await pipelines_api.catalog_api.call(
        "PATCH", f"/api/admin/workflows/{made['steps'][1]['workflow']}", {"is_active": False}
    )
    refused = await pipelines_api.begin(made)
    assert "is switched off" in problems(refused, 409)["steps.1.workflow"]
    assert refused.json()["code"] == "wrong_state"


async def test_a_placeholder_that_nothing_fills_is_refused(pipelines_api: PipelinesApi) -> None:
    styled = await pipelines_api.workflow(STYLED)
    response = await pipelines_api.define([{"name": "Base", "workflow": styled}])
    assert problems(response) == {
        "steps.0.workflow": "The placeholder {{style}} is unknown. To use the run's variables, set needs_run_variables."
    }
    base, fix = await pipelines_api.steps()
    found = problems(
        await pipelines_api.define([{**base, "needs_run_prompt": False}, {**fix, "needs_parent_image_path": False}])
    )
    assert (
        found["steps.0.workflow"]
        == "There is a {{prompt}}, but the step does not use the run's prompt. Set needs_run_prompt."
    )
    assert (
        found["steps.1.workflow"]
        == "There is a {{parent_image_path}}, but the step uses no parent. Set needs_parent_image_path."
    )
    odd = {**STYLED, "1": {"class_type": "PaintPicture", "inputs": {"text": "{{Not A Name}}"}}}
    response = await pipelines_api.define(
        [{"name": "Base", "workflow": await pipelines_api.workflow(odd), "needs_run_variables": True}]
    )
    assert "is not a valid name" in problems(response)["steps.0.workflow"]


async def test_a_value_that_a_step_needs_must_have_a_placeholder(pipelines_api: PipelinesApi) -> None:
    base, fix = await pipelines_api.steps()
    assert (
        "has no {{prompt}}"
        in problems(await pipelines_api.define([base, {**fix, "needs_run_prompt": True}]))["steps.1.needs_run_prompt"]
    )
    found = problems(await pipelines_api.define([{**base, "needs_parent_image_path": True}]))
    assert found == {"steps.0.needs_parent_image_path": "The first step has no parent."}


async def test_free_text_of_a_run_cannot_name_a_file(pipelines_api: PipelinesApi) -> None:
    graph = {**FIX, "1": {"class_type": "LoadImage", "inputs": {"image": "{{style}}"}}}
    response = await pipelines_api.define(
        [{"name": "Base", "workflow": await pipelines_api.workflow(graph), "needs_run_variables": True}]
    )
    assert "names a file" in problems(response)["steps.0.workflow"]


async def test_values_of_a_step_must_fit_the_properties_of_its_workflow(pipelines_api: PipelinesApi) -> None:
    graph = {**STYLED, "1": {"class_type": "PaintPicture", "inputs": {"text": "a", "cfg": "__STRENGTH__"}}}
    step = {"name": "Base", "workflow": await pipelines_api.workflow(graph, properties=[STRENGTH])}
    assert problems(await pipelines_api.define([step])) == {
        "steps.0.values.strength": "This property is required. Set it here."
    }
    response = await pipelines_api.define([{**step, "values": {"strength": 11, "colour": "red"}}])
    assert problems(response) == {
        "steps.0.values.strength": "The value must be 10 or less.",
        "steps.0.values.colour": "This workflow has no such property.",
    }
    assert (await pipelines_api.define([{**step, "values": {"strength": 2}}])).status_code == 201
    by_run = await pipelines_api.pipeline([{**step, "needs_run_variables": True}])
    assert "This field is required." in problems(await pipelines_api.begin(by_run))["variables.strength"]
    assert "10 or less" in problems(await pipelines_api.begin(by_run, variables={"strength": 99}))["variables.strength"]
    assert (await pipelines_api.begin(by_run, variables={"strength": 1})).status_code == 201


async def test_an_incomplete_run_is_refused_and_writes_nothing(pipelines_api: PipelinesApi) -> None:
    pipeline = await pipelines_api.pipeline()
    assert "The step 'base' needs" in problems(await pipelines_api.begin(pipeline, prompt=None))["prompt"]
    assert problems(await pipelines_api.begin(pipeline, budget=None)).keys() == {"budget"}
    assert problems(await pipelines_api.begin(pipeline, budget=0)).keys() == {"budget"}
    found = problems(await pipelines_api.begin(pipeline, variables={"style": "noir"}))
    assert found == {"variables.style": "No step of this pipeline uses this variable."}
    assert problems(await pipelines_api.begin(pipeline, concurrency=900)).keys() == {"concurrency"}
    assert problems(await pipelines_api.begin(pipeline, target_folder="../up")).keys() == {"target_folder"}
    styled = await pipelines_api.pipeline(
        [{"name": "Base", "workflow": await pipelines_api.workflow(STYLED), "needs_run_variables": True}]
    )
    assert "This field is required." in problems(await pipelines_api.begin(styled))["variables.style"]
    assert (await pipelines_api.call("GET", "/api/runs")).json()["items"] == []


async def test_the_owner_pauses_resumes_and_cancels_a_run(pipelines_api: PipelinesApi) -> None:
    pipeline = await pipelines_api.pipeline()
    run = (await pipelines_api.begin(pipeline, target_folder="gym-shoot", seed=7, target_leaves=2)).json()
    assert (run["status"], run["seed"], run["spent"], run["target_leaves"]) == ("active", 7, 0, 2)
    assert [step["step"]["slug"] for step in run["steps"]] == ["base", "fix"]
    path = f"/api/runs/{run['id']}"
    assert problems(await pipelines_api.begin(pipeline, target_folder="gym-shoot"), 409).keys() == {"target_folder"}
    assert (await pipelines_api.call("POST", f"{path}/pause")).json()["status"] == "paused"
    paused = (await pipelines_api.call("POST", f"{path}/pause")).json()
    assert (paused["status"], paused["reason"]) == ("paused", "by_user")
    assert (await pipelines_api.call("PATCH", path, {"budget": 50, "name": "Other"})).json()["budget"] == 50
    assert (await pipelines_api.call("POST", f"{path}/resume")).json()["status"] == "active"
    assert (await pipelines_api.call("POST", f"{path}/cancel")).json()["status"] == "canceled"
    assert (await pipelines_api.call("POST", f"{path}/resume")).json()["code"] == "wrong_state"
    more = await pipelines_api.call("PATCH", path, {"target_leaves": 9})
    assert (more.status_code, "Start another run" in more.json()["detail"]) == (409, True)
    assert (await pipelines_api.call("POST", f"{path}/pause")).status_code == 409
    listed = (await pipelines_api.call("GET", f"/api/pipelines/{pipeline['slug']}/runs?status=canceled")).json()[
        "items"
    ]
    assert [each["id"] for each in listed] == [run["id"]]
    assert (await pipelines_api.call("GET", "/api/runs?status=active")).json()["items"] == []
    assert (await pipelines_api.call("GET", f"{path}/tree")).json() == {"items": [], "next_cursor": None}
    assert (await pipelines_api.call("DELETE", f"/api/pipelines/{pipeline['slug']}")).json()["code"] == "in_use"


async def test_a_run_is_deleted_when_it_has_ended_and_not_before(pipelines_api: PipelinesApi) -> None:
    pipeline = await pipelines_api.pipeline()
    run = (await pipelines_api.begin(pipeline, target_folder="to-delete", idempotency_key="once")).json()
    path = f"/api/runs/{run['id']}"
    refused = (await pipelines_api.call("DELETE", path)).json()
    assert (refused["code"], refused["detail"]) == ("wrong_state", "The run is active. Cancel it, then delete it.")
    await pipelines_api.call("POST", f"{path}/cancel")
    deleted = await pipelines_api.call("DELETE", path)
    assert (deleted.status_code, deleted.content) == (204, b"")
    for method, beyond in (("GET", ""), ("PATCH", ""), ("POST", "/resume"), ("GET", "/tree"), ("GET", "/candidates")):
        response = await pipelines_api.call(method, path + beyond, {"name": "x"} if method == "PATCH" else None)
        assert_refused(response, 404, "not_found")
    listed = (await pipelines_api.call("GET", "/api/runs")).json()["items"]
    assert run["id"] not in [each["id"] for each in listed]

    async def is_gone() -> bool:
        return (await pipelines_api.call("DELETE", path)).status_code == 404

    await until(is_gone)
    # The pipeline may be deleted now, and the folder and the key are free again.
    again = await pipelines_api.begin(pipeline, target_folder="to-delete", idempotency_key="once")
    assert (again.status_code, again.json()["id"] != run["id"]) == (201, True)


async def test_a_prompt_or_variable_may_contain_the_placeholder_of_a_file(pipelines_api: PipelinesApi) -> None:
    """Only the placeholders of the workflow are replaced, so the text is an ordinary text."""
    pipeline = await pipelines_api.pipeline()
    for prompt in ("__INPUT_PATH__", "a __INPUT_PATH__ {{prompt}} b"):
        assert (await pipelines_api.begin(pipeline, prompt=prompt)).status_code == 201
    styled = await pipelines_api.workflow(STYLED)
    by_run = await pipelines_api.pipeline([{"name": "Base", "workflow": styled, "needs_run_variables": True}])
    started = await pipelines_api.begin(by_run, prompt=None, variables={"style": "__INPUT_PATH__"})
    assert started.status_code == 201
    graph = {**STYLED, "1": {"class_type": "PaintPicture", "inputs": {"text": "__STYLE__"}}}
    style = {"key": "style", "type": "text", "placeholder": "__STYLE__", "required": True, "user_configurable": True}
    workflow = await pipelines_api.workflow(graph, properties=[style])
    by_step = await pipelines_api.define(
        [{"name": "Base", "workflow": workflow, "values": {"style": "x __INPUT_PATH__"}}]
    )
    assert by_step.status_code == 201


async def test_a_step_without_placeholders_ignores_variables(pipelines_api: PipelinesApi) -> None:
    """It has a seed of its own, whatever another step calls by that name."""
    base, styled = await pipelines_api.workflow(BASE), await pipelines_api.workflow(STYLED)
    pipeline = await pipelines_api.pipeline(
        [
            {"name": "Base", "workflow": base, "needs_run_prompt": True},
            {"name": "Styled", "workflow": styled, "needs_run_variables": True},
        ]
    )
    found = problems(await pipelines_api.begin(pipeline, variables={"style": "noir", "seed": "x"}))
    assert found == {"variables.seed": "No step of this pipeline uses this variable."}


async def test_a_response_with_many_errors_stays_small(pipelines_api: PipelinesApi) -> None:
    workflow = await pipelines_api.workflow(BASE)
    wrong = {f"key-{number}-{'x' * 90}": 1 for number in range(100)}
    step = {"name": "Base", "workflow": workflow, "needs_run_prompt": True, "values": wrong}
    response = await pipelines_api.define([step] * 50)
    assert len(problems(response)) == 50
    assert len(response.content) < 20_000


async def test_a_repeated_key_returns_the_same_run(pipelines_api: PipelinesApi) -> None:
    pipeline = await pipelines_api.pipeline()
    first = await pipelines_api.begin(pipeline, idempotency_key="once")
    again = await pipelines_api.begin(pipeline, idempotency_key="once")
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.headers["Idempotent-Replayed"] == "true"
    assert again.json()["id"] == first.json()["id"]
    other = await pipelines_api.begin(pipeline, idempotency_key="once", budget=7)
    refused = assert_refused(other, 422, "idempotency_key_reused", "budget")
    assert refused["run_id"] == first.json()["id"]
    # Another user's key is another key.
    stranger = PipelinesApi(pipelines_api.catalog_api, await pipelines_api.catalog_api.person())
    theirs = await stranger.pipeline(await pipelines_api.steps())
    assert (await stranger.begin(theirs, idempotency_key="once")).status_code == 201


async def test_the_total_size_of_variables_has_a_limit(pipelines_api: PipelinesApi) -> None:
    """A list of a hundred runs shows all of theirs."""
    names = [f"v{number}" for number in range(5)]
    text = " ".join("{{" + name + "}}" for name in names)
    workflow = await pipelines_api.workflow({**STYLED, "1": {"class_type": "PaintPicture", "inputs": {"text": text}}})
    pipeline = await pipelines_api.pipeline([{"name": "Base", "workflow": workflow, "needs_run_variables": True}])
    found = problems(await pipelines_api.begin(pipeline, prompt=None, variables=dict.fromkeys(names, "x" * 20_000)))
    assert found == {"variables": "All texts together must have at most 65536 characters."}
    fitting = await pipelines_api.begin(pipeline, prompt=None, variables=dict.fromkeys(names, "x" * 10_000))
    assert fitting.status_code == 201, fitting.text


async def test_an_unpublished_workflow_is_refused_like_an_unknown_workflow(pipelines_api: PipelinesApi) -> None:
    """Names of what admins have not published are not to be guessed by making steps of them."""
    unsold, unpublished = (
        await pipelines_api.workflow(STYLED, sold=False),
        await pipelines_api.workflow(STYLED, sold=False),
    )
    await pipelines_api.catalog_api.effect(unpublished, is_published=False)
    sentences = []
    for workflow in (unsold, unpublished, "nobody-made-this"):
        found = problems(
            await pipelines_api.define([{"name": "Base", "workflow": workflow, "needs_run_variables": True}])
        )
        sentences.append(found["steps.0.workflow"].replace(workflow, "?"))
    assert len(set(sentences)) == 1
