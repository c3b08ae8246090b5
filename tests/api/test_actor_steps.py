"""Runs whose steps are actors, over HTTP: a service that calls back, and payloads that are right or refused."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane, running_control_plane
from callsheet.plumbing.embedded import EmbeddedPostgres
from callsheet.providers.config import ProvidersConfig
from callsheet.settings.tasks import COSTS
from callsheet.wire.job_errors import SENTENCES
from tests.support.database.installation import changed, installation, isolate
from tests.support.http.accounts import People, Person
from tests.support.http.catalog_api import CatalogApi
from tests.support.providers.provider_services import LOCAL, service_settings
from tests.support.providers.replicate_files import content_of
from tests.support.providers.replicate_server import ReplicateServer, Scenario, replicate_server
from tests.support.waiting import until

Json = dict[str, Any]
_numbers = itertools.count(1)
COST = 4
REPLICATE = {"provider": "replicate", "action_type": "txt2img"}
WORDS: Json = {**REPLICATE, "prompt": "{{prompt}}, {{style}}", "params": {"seed": "{{seed}}", "steps": "{{steps}}"}}
AGAIN: Json = {**REPLICATE, "prompt": "again", "params": {"image": "{{parent_image_path}}"}}
VARIABLES = {"style": 'in "oil"', "steps": 4}
BASE: Json = {
    "name": "Base",
    "workflow": "actor:media",
    "payload": WORDS,
    "needs_run_prompt": True,
    "needs_run_variables": True,
    "max_children": 1,
}
CHILD: Json = {"name": "Child", "workflow": "actor:media", "payload": AGAIN, "needs_parent_image_path": True}


@dataclass(frozen=True, slots=True)
class ActorRunsApi:
    """Pipelines whose steps are actors, over HTTP as one user sees them."""

    plane: ControlPlane
    catalog_api: CatalogApi
    replicate: ReplicateServer
    ann: Person

    async def ask(self, method: str, path: str, body: Any = None) -> httpx.Response:
        return await self.catalog_api.call(method, path, body, person=self.ann)

    async def get(self, path: str) -> Json:
        response = await self.ask("GET", path)
        assert response.status_code == 200, response.text
        shown: Json = response.json()
        return shown

    async def define(self, *steps: Json) -> httpx.Response:
        request = {"slug": f"floor-{next(_numbers)}", "name": "A pipeline", "steps": list(steps)}
        return await self.ask("POST", "/api/pipelines", request)

    async def begin(self, *steps: Json, **changes: Any) -> Json:
        made = await self.define(*steps)
        assert made.status_code == 201, made.text
        response = await self.start(made.json()["slug"], **changes)
        assert response.status_code == 201, response.text
        run: Json = response.json()
        return run

    async def start(self, pipeline: str, **changes: Any) -> httpx.Response:
        request = {"name": "A run", "prompt": "a gym", "variables": VARIABLES, "budget": 100, "target_leaves": 1}
        return await self.ask("POST", f"/api/pipelines/{pipeline}/runs", {**request, **changes})

    async def becomes(self, run: Json, status: str) -> Json:
        async def has() -> bool:
            return bool((await self.get(f"/api/runs/{run['id']}"))["status"] == status)

        await until(has)
        return await self.get(f"/api/runs/{run['id']}")

    async def prediction(self, number: int) -> Json:
        """The n-th that was asked of the service, as soon as our side knows that it waits for it."""
        await until(lambda: len(self.replicate.predictions) >= number)
        prediction = list(self.replicate.predictions.values())[number - 1]

        async def is_waited_for() -> bool:
            query = "SELECT 1 FROM ai_job_dispatches WHERE status = 'waiting' AND provider_job_id = $1"
            async with self.plane.databases.central.connection() as connection:
                return bool(await connection.fetchval(query, prediction["id"]))

        await until(is_waited_for)
        return prediction

    async def candidates(self, run: Json) -> list[Json]:
        items: list[Json] = (await self.get(f"/api/runs/{run['id']}/candidates"))["items"]
        return sorted(items, key=lambda each: int(each["number"]))

    async def balance(self) -> int:
        return int((await self.get("/api/wallet"))["balance"])


@pytest.fixture(scope="module")
async def shared_actor_runs_api(
    postgres: EmbeddedPostgres, templates: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ActorRunsApi]:
    """One control plane for all these tests."""
    directory = tmp_path_factory.mktemp("actor-steps")
    with pytest.MonkeyPatch.context() as monkeypatch:
        isolate(monkeypatch, directory)
        async with (
            replicate_server() as replicate,
            installation(postgres, templates, directory / "home") as settings,
        ):
            services = service_settings(replicate)
            described = services.http["described"].model_copy(update={"secret": None})
            providers = ProvidersConfig(replicate=services.replicate, http={"described": described})
            chosen = changed(
                settings,
                providers=dict(providers),
                outgoing={"allow_networks": (LOCAL,)},
                tasks={"in_process": 4, "costs": {**COSTS, "media": COST}},
            )
            async with (
                running_control_plane(chosen) as plane,
                httpx.AsyncClient(base_url=chosen.public_url, trust_env=False, timeout=60) as client,
            ):
                await until(lambda: plane.rooms.task_runner is not None and plane.rooms.task_runner.is_ready)
                catalog_api = await CatalogApi.open(
                    plane, client, People(plane.rooms.identity.accounts, plane.rooms.identity.keys)
                )
                yield ActorRunsApi(plane, catalog_api, replicate, catalog_api.admin)


@pytest.fixture
async def actor_runs_api(shared_actor_runs_api: ActorRunsApi) -> ActorRunsApi:
    """Every user has a wallet of their own."""
    shared_actor_runs_api.replicate.forget()
    return ActorRunsApi(
        shared_actor_runs_api.plane,
        shared_actor_runs_api.catalog_api,
        shared_actor_runs_api.replicate,
        await shared_actor_runs_api.catalog_api.person(),
    )


async def test_a_callback_ends_the_job_and_makes_the_candidate(actor_runs_api: ActorRunsApi) -> None:
    actor_runs_api.replicate.scenario = Scenario(held=True)
    run = await actor_runs_api.begin(BASE, CHILD)
    prediction = await actor_runs_api.prediction(1)
    assert prediction["input"]["prompt"] == 'a gym, in "oil"'
    assert prediction["input"]["steps"] == 4
    assert isinstance(prediction["input"]["seed"], int)
    assert await actor_runs_api.candidates(run) == []
    await actor_runs_api.replicate.finish(prediction["id"])
    again = await actor_runs_api.prediction(2)
    # The signed URL works without a key, and leads to the parent's image.
    parent = await actor_runs_api.catalog_api.client.get(again["input"]["image"])
    assert parent.content == content_of("picture.png")
    await actor_runs_api.replicate.finish(again["id"], Scenario(output="{files}/picture-2.png"))
    ended = await actor_runs_api.becomes(run, "completed")
    assert (ended["reason"], ended["spent"], ended["draws"]) == ("target_reached", 2 * COST, 2)
    [base, leaf] = await actor_runs_api.candidates(run)
    assert leaf["parent_id"] == base["id"]
    assert (await actor_runs_api.catalog_api.client.get(leaf["file"]["url"])).content == content_of("picture-2.png")
    assert await actor_runs_api.balance() == 100 - 2 * COST


async def test_every_image_of_a_prediction_is_a_candidate(actor_runs_api: ActorRunsApi) -> None:
    actor_runs_api.replicate.scenario = Scenario(output=["{files}/picture.png", "{files}/picture-2.png"])
    run = await actor_runs_api.becomes(await actor_runs_api.begin(BASE), "completed")
    assert [(one["number"], one["output_index"]) for one in await actor_runs_api.candidates(run)] == [(1, 0), (2, 1)]
    assert run["spent"] == COST


@pytest.mark.thorough
async def test_a_job_says_which_run_it_belongs_to_and_lists_are_narrowed_by_it(actor_runs_api: ActorRunsApi) -> None:
    run = await actor_runs_api.becomes(await actor_runs_api.begin(BASE, CHILD), "completed")
    other = await actor_runs_api.becomes(await actor_runs_api.begin(BASE), "completed")
    jobs = (await actor_runs_api.get(f"/api/ai-jobs?run_id={run['id']}"))["items"]
    [base, leaf] = await actor_runs_api.candidates(run)
    assert [(job["id"], job["run_id"], job["parent_candidate_id"]) for job in jobs] == [
        (leaf["job_id"], run["id"], base["id"]),
        (base["job_id"], run["id"], None),
    ]
    assert jobs[1]["step_id"] == run["steps"][0]["step"]["id"]
    assert len((await actor_runs_api.get("/api/ai-jobs"))["items"]) == 3
    page = await actor_runs_api.get(f"/api/ai-jobs?run_id={run['id']}&limit=1")
    following = await actor_runs_api.get(f"/api/ai-jobs?run_id={run['id']}&limit=1&cursor={page['next_cursor']}")
    assert [job["id"] for job in (*page["items"], *following["items"])] == [leaf["job_id"], base["job_id"]]
    assert (await actor_runs_api.get(f"/api/ai-jobs?run_id={run['id']}&status=failed"))["items"] == []
    bob = await actor_runs_api.catalog_api.person()
    response = await actor_runs_api.catalog_api.call("GET", f"/api/ai-jobs?run_id={other['id']}", person=bob)
    assert response.json()["items"] == []


async def test_a_task_of_a_run_is_shown_without_places_in_storage(actor_runs_api: ActorRunsApi) -> None:
    run = await actor_runs_api.becomes(await actor_runs_api.begin(BASE, CHILD), "completed")
    [_, leaf] = await actor_runs_api.candidates(run)
    tasks = (await actor_runs_api.get("/api/task"))["items"]
    assert tasks[0]["job_id"] == leaf["job_id"]
    assert (await actor_runs_api.get(f"/api/task/{tasks[0]['task_id']}"))["payload"] == AGAIN
    ancestors = (await actor_runs_api.get(f"/api/candidates/{leaf['id']}/lineage"))["ancestors"]
    assert [one["payload"] for one in ancestors][1] == AGAIN
    assert ancestors[0]["payload"]["params"]["steps"] == 4


@pytest.mark.thorough
async def test_failed_predictions_count_as_strikes_and_are_refunded(actor_runs_api: ActorRunsApi) -> None:
    actor_runs_api.replicate.scenario = Scenario(held=True)
    run = await actor_runs_api.begin(BASE, CHILD)
    first = await actor_runs_api.prediction(1)
    actor_runs_api.replicate.scenario = Scenario(outcome="failed", error="NSFW")
    await actor_runs_api.replicate.finish(first["id"])
    stopped = await actor_runs_api.becomes(run, "paused")
    assert stopped["reason"] == "base_failed"
    # What the provider said is for operators.
    assert SENTENCES["provider_failed"] in stopped["reason_detail"]
    assert "NSFW" not in stopped["reason_detail"]
    [base] = await actor_runs_api.candidates(run)
    assert (base["failure_count"], base["child_count"], base["in_flight"]) == (3, 0, 0)
    assert (stopped["spent"], await actor_runs_api.balance()) == (COST, 100 - COST)


async def test_a_kill_cancels_the_running_prediction_and_refunds_it(actor_runs_api: ActorRunsApi) -> None:
    actor_runs_api.replicate.scenario = Scenario(held=True)
    run = await actor_runs_api.begin(BASE, CHILD)
    await actor_runs_api.replicate.finish((await actor_runs_api.prediction(1))["id"])
    under_way = await actor_runs_api.prediction(2)
    await actor_runs_api.ask("POST", f"/api/runs/{run['id']}/pause")
    [base] = await actor_runs_api.candidates(run)
    killed = await actor_runs_api.ask("POST", f"/api/candidates/{base['id']}/kill")
    assert (killed.json()["rejected"], killed.json()["canceled_jobs"]) == (1, 1)
    await until(lambda: under_way["status"] == "canceled")

    async def is_given_back() -> bool:
        return bool((await actor_runs_api.get(f"/api/runs/{run['id']}"))["spent"] == COST)

    await until(is_given_back)
    assert await actor_runs_api.balance() == 100 - COST
    assert len(await actor_runs_api.candidates(run)) == 1


@pytest.mark.thorough
async def test_a_replay_of_a_candidate_of_an_actor_runs_the_same_actor_again(actor_runs_api: ActorRunsApi) -> None:
    run = await actor_runs_api.becomes(await actor_runs_api.begin(BASE, CHILD), "completed")
    [_, leaf] = await actor_runs_api.candidates(run)
    response = await actor_runs_api.ask("POST", f"/api/candidates/{leaf['id']}/replay", {"idempotency_key": "again"})
    assert response.status_code == 201, response.text
    job = response.json()
    assert (job["kind"], job["cost"], job["run_id"]) == ("replay", COST, None)
    repeated = await actor_runs_api.ask("POST", f"/api/candidates/{leaf['id']}/replay", {"idempotency_key": "again"})
    assert (repeated.status_code, repeated.json()["id"]) == (200, job["id"])

    async def has_ended() -> bool:
        return bool((await actor_runs_api.get(f"/api/ai-jobs/{job['id']}"))["status"] == "completed")

    await until(has_ended)
    first, second = (each.body["input"]["image"] for each in actor_runs_api.replicate.submitted[1:])
    assert first.partition("?")[0] == second.partition("?")[0]


def problems(response: httpx.Response) -> dict[str, str]:
    assert response.status_code == 422, response.text
    assert response.headers["content-type"] == "application/problem+json"
    return {error["field"]: error["reason"] for error in response.json()["errors"]}


PRODUCT = {"title": "Lamp"}


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("changes", "field", "reason"),
    [
        ({"workflow": "actor:nobody"}, "workflow", "Unknown actor 'nobody'. Available: copy, media"),
        ({"workflow": "actor:media:night"}, "workflow", "Unknown queue 'night'"),
        ({"workflow": "actor:"}, "workflow", "Unknown actor"),
        ({"workflow": "actor:copy", "payload": {"product": PRODUCT}}, "workflow", "makes neither images nor videos"),
        ({"workflow": "actor:scrape", "payload": {"url": "https://a.test/"}}, "workflow", "makes neither"),
        (
            {"workflow": "actor:tts", "payload": {"text": "Hello."}},
            "workflow",
            "The provider of tts is not configured.",
        ),
        ({"payload": None}, "payload", "An actor needs a payload."),
        ({"payload": []}, "payload", "The value must be an object."),
        ({"payload": {}}, "payload.provider", "This field is required."),
        ({"payload": {**WORDS, "provider": "nowhere"}}, "payload.provider", "Unknown provider 'nowhere'."),
        ({"payload": {**WORDS, "provider": "lightbox"}}, "payload.provider", "is not configured"),
        ({"payload": {**WORDS, "provider": "described"}}, "payload.provider", "is not configured"),
        ({"payload": {**WORDS, "action_type": "fly"}}, "payload.action_type", "The provider replicate has no action"),
        ({"payload": {**WORDS, "colour": "red"}}, "payload.colour", "A media task has no such field."),
        ({"payload": {**WORDS, "params": []}}, "payload.params", "The value must be an object."),
        ({"payload": {**WORDS, "workflow_run_id": "x" * 201}}, "payload.workflow_run_id", "at most 200 characters"),
        ({"payload": {**WORDS, "prompt": "{{Prompt}}"}}, "payload.prompt", "is not a valid name"),
        ({"needs_run_variables": False}, "payload.prompt", "The placeholder {{style}} is unknown."),
        ({"needs_run_prompt": False}, "payload.prompt", "Set needs_run_prompt."),
        ({"needs_parent_image_path": True}, "needs_parent_image_path", "The first step has no parent."),
        ({"effect": "glow"}, "effect", "An actor has no"),
        ({"values": {"strength": 1}}, "values", "An actor has no"),
        ({"workflow": "demo-imagine"}, "payload", "Only an actor takes a payload"),
    ],
    ids=lambda value: None if isinstance(value, dict) else str(value)[:40],
)
async def test_a_step_that_its_actor_cannot_run_is_refused_by_field(
    actor_runs_api: ActorRunsApi, changes: Json, field: str, reason: str
) -> None:
    found = problems(await actor_runs_api.define({**BASE, **changes}))
    assert reason in found[f"steps.0.{field}"], found


@pytest.mark.parametrize(
    ("changes", "field", "reason"),
    [
        ({"variables": {"style": "oil"}}, "variables.steps", "The step 'base' needs"),
        ({"variables": {**VARIABLES, "colour": "red"}}, "variables.colour", "No step of this pipeline"),
        ({"prompt": None}, "prompt", "The step 'base' needs"),
    ],
)
async def test_a_run_without_the_inputs_of_its_actors_is_refused_by_field(
    actor_runs_api: ActorRunsApi, changes: Json, field: str, reason: str
) -> None:
    made = (await actor_runs_api.define(BASE)).json()
    assert reason in problems(await actor_runs_api.start(made["slug"], **changes))[field]
    assert (await actor_runs_api.get("/api/runs"))["items"] == []


async def test_a_variable_that_the_actor_refuses_is_named_as_a_field_of_the_run(actor_runs_api: ActorRunsApi) -> None:
    """The variable had no value when the pipeline was created."""
    sized = {**BASE, "payload": {**WORDS, "action_type": "{{action}}"}}
    made = (await actor_runs_api.define(sized)).json()
    found = problems(await actor_runs_api.start(made["slug"], variables={**VARIABLES, "action": "fly"}))
    assert "The provider replicate has no action" in found["variables.action"]
    started = await actor_runs_api.start(made["slug"], variables={**VARIABLES, "action": "txt2img"})
    assert (await actor_runs_api.becomes(started.json(), "completed"))["candidates"] == 1


async def test_a_changed_payload_is_a_new_version_and_an_unchanged_one_is_not(actor_runs_api: ActorRunsApi) -> None:
    made = (await actor_runs_api.define(BASE)).json()
    assert made["steps"][0]["payload"] == WORDS
    assert made["steps"][0]["effect_id"] is None
    same = await actor_runs_api.ask("PATCH", f"/api/pipelines/{made['slug']}", {"steps": [BASE]})
    assert same.json()["version"] == 1
    other = {**BASE, "payload": {**WORDS, "interaction_id": "7"}}
    changed_one = await actor_runs_api.ask("PATCH", f"/api/pipelines/{made['slug']}", {"steps": [other]})
    assert changed_one.json()["version"] == 2
