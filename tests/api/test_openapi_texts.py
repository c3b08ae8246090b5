"""The OpenAPI document reads well: every operation has a summary, every body an example, and each example works."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from callsheet.plumbing.openapi_texts import PARAMETERS, TEXTS
from tests.support.actor_harness import ActorHarness
from tests.support.authorization_setup import AuthorizationSetup
from tests.support.catalog_api import MP4, CatalogApi
from tests.support.core import Core, Member
from tests.support.people import PASSWORD, Person

Operation = dict[str, Any]
# The words that the rules of plain English leave out.
ODD_WORDS = re.compile(r"\b(whom|nobody|somebody|whoever|begun|told|picture|address|answers)\b", re.IGNORECASE)
# Candidates of a job that was made of no effect cannot be made again; tests/api/test_candidates.py replays others.
# The worker that is to be revoked has said good-bye by then, the job of the setup has made nothing to share, and the
# operator has no completed job to show; tests/api/test_effect_previews.py shows some.
REFUSED_HERE = {
    "login_once": 404,
    "replay_candidate": 422,
    "revoke_worker": 404,
    "create_share_link": 409,
    "set_effect_preview": 422,
    # The settings here name no command.
    "set_fleet_scaling": 422,
}
WORKER_REPORTS = ("heartbeat", "complete", "fail", "requeue", "defer")


async def operations_of(client: httpx.AsyncClient) -> dict[str, tuple[str, Operation]]:
    """By their id: method and path, and what the document says."""
    paths = (await client.get("/openapi.json")).json()["paths"]
    return {
        operation["operationId"]: (f"{method.upper()} {path}", operation)
        for path, methods in paths.items()
        for method, operation in methods.items()
    }


def takes_json(operation: Operation) -> bool:
    return "schema" in operation.get("requestBody", {}).get("content", {}).get("application/json", {})


async def test_every_operation_has_a_summary_in_plain_words(client: httpx.AsyncClient) -> None:
    found = await operations_of(client)
    wrong = []
    for name, (address, operation) in found.items():
        summary = operation.get("summary", "")
        is_sentence = summary[:1].isupper() and len(summary.split()) >= 2 and not summary.endswith(".")
        # FastAPI would make a title of the function's name.
        if (
            not is_sentence
            or len(summary) > 75
            or summary == name.replace("_", " ").title()
            or ODD_WORDS.search(summary)
        ):
            wrong.append(f"{address}: {summary!r}")
    assert wrong == [], "say it in src/callsheet/plumbing/openapi_texts.toml"
    assert len({operation["summary"] for _, operation in found.values()}) == len(found)
    assert TEXTS.keys() - found.keys() == {"parameters"}, "these operations are gone"


async def test_every_parameter_is_described(client: httpx.AsyncClient) -> None:
    found = await operations_of(client)
    missing = {
        f"{address} {parameter['name']}"
        for address, operation in found.values()
        for parameter in operation.get("parameters", ())
        if not parameter.get("description")
    }
    assert missing == set()
    names = {parameter["name"] for _, operation in found.values() for parameter in operation.get("parameters", ())}
    assert PARAMETERS.keys() - names == set(), "no operation has these parameters"


async def test_every_body_has_an_example(client: httpx.AsyncClient) -> None:
    found = await operations_of(client)
    bodies = {name for name, (_, operation) in found.items() if takes_json(operation)}
    examples = {name for name, text in TEXTS.items() if "example" in text}
    assert bodies - examples == set(), "give them an example in openapi_texts.toml"
    assert examples - bodies == set(), "these take no body"


class Sender:
    """Sends the examples, with ids of things that are there."""

    def __init__(self, actor_harness: ActorHarness, setup: AuthorizationSetup, catalog_api: CatalogApi, owner: Person):
        self.actor_harness = actor_harness
        self.setup = setup
        self.catalog_api = catalog_api
        self.owner = owner
        self.holder: dict[str, str] = {}

    async def send(self, name: str, address: str, example: dict[str, Any]) -> httpx.Response:
        names = await self._names(name)
        body = _filled(example, names)
        method, _, path = address.partition(" ")
        for part, value in (self.setup.names | names).items():
            path = path.replace(f"{{{part}}}", str(value))
        headers = self.holder if name in WORKER_REPORTS else self.setup.headers[_caller(address)]
        return await self.setup.client.request(method, path, json=body, headers=headers)

    async def _names(self, name: str) -> dict[str, Any]:
        setup = self.setup.names
        names: dict[str, Any] = {
            "effect_id": setup["effect"],
            "user_id": setup["user_id"],
            "job_id": setup["job_id"],
            "tenant": setup["tenant"],
            "workflow": setup["workflow"],
            "workflow_slugs": [setup["workflow"]],
            "winner_id": setup["candidate_id"],
            "loser_id": setup["rival_id"],
            "provider": "sketches",
        }
        if name in ("submit_effect_job", "create_video"):
            names["video_id"] = await self.catalog_api.video(self.owner)
            names["original_file_id"] = await self.catalog_api.file(self.owner)
        elif name == "login":
            names |= {"email": self.owner.user.email, "password": PASSWORD}
        elif name in WORKER_REPORTS:
            names |= await self._lease(name)
        elif "job_of_tenant" in name or "job_by_id" in name or "dispatch" in name:
            names |= await self._job(started=name != "change_dispatch_priority", failed="retry" in name)
        elif name in ("create_pipeline", "create_run", "preview_run"):
            graph = {
                "save": {"class_type": "SaveImage", "inputs": {"images": ["1", 0]}},
                "1": {"class_type": "PaintPicture", "inputs": {"text": "a gym"}},
            }
            names["workflow"] = await self.catalog_api.sold_image_workflow(graph)
        elif name == "change_role":
            names["user_id"] = (await self.actor_harness.person(tenant_of=self.owner)).user.id
        elif name in ("accept_invitation", "reset_password"):
            names["token"] = await self._token(name)
        if name == "create_run":
            names["pipeline"] = await self._pipeline(names["workflow"])
        return names

    async def _lease(self, name: str) -> dict[str, Any]:
        video_id = await self.catalog_api.video(self.owner)
        effect = {"slug": self.setup.names["effect"]}
        await self.catalog_api.submit(self.owner, effect, video_id=video_id)
        # A worker of its own: that of the setup has a job already.
        place = {"worker_id": f"sent-{name}", "workflow_slugs": [self.setup.names["workflow"]]}
        secret = self.setup.headers["fleet secret"]
        registered = await self.setup.client.post("/api/worker/register", json=place, headers=secret)
        self.holder = {"authorization": f"Bearer {registered.json()['token']}"}
        answer = await self.setup.client.post("/api/worker/poll", json={}, headers=self.holder)
        job = answer.json()["job"]
        if name == "complete":
            await self.setup.client.put(job["output_url"], content=MP4, headers=job["output_headers"])
        return {"dispatch_id": job["dispatch_id"], "lease_token": job["lease_token"]}

    async def _job(self, *, started: bool, failed: bool) -> dict[str, Any]:
        """A job of the owner's that waits in the queue, that a worker has, or that has failed."""
        plane = self.actor_harness.plane
        core = Core(plane.databases, plane.jobs, [])
        core.workflow = await core.add_workflow()
        member = Member(self.owner.tenant.id, self.owner.user.id, await plane.databases.pool(self.owner.tenant.pool))
        job = await core.submit(member, cost=0)
        dispatch = await core.dispatch(job.id)
        assert dispatch is not None
        if started:
            lease = await core.start()
            if failed:
                await core.fail(lease)
        return {"job_id": str(job.id), "dispatch_id": dispatch["dispatch_id"]}

    async def _token(self, name: str) -> str:
        """Of a link that was not used yet, and is shown because no mail server is configured."""
        if name == "accept_invitation":
            invited = {"tenant": self.setup.names["tenant"], "email": "dora@example.com"}
            answer = await self.catalog_api.made("/api/admin/invitations", invited)
        else:
            user = (await self.actor_harness.person(tenant_of=self.owner)).user
            created = await self.catalog_api.call("POST", f"/api/admin/users/{user.id}/password-reset")
            answer = created.json()
        return str(answer["link"]).rpartition("/")[2]

    async def _pipeline(self, workflow: str) -> str:
        body = {"slug": "sent", "name": "Sent", "steps": [{"name": "Base", "workflow": workflow}]}
        return str((await self.catalog_api.made("/api/pipelines", body, person=self.owner))["slug"])


def _caller(address: str) -> str:
    if address == "POST /api/keys":
        return "owner's session"
    if "/api/worker/register" in address:
        return "fleet secret"
    if "/api/worker/" in address:
        return "worker"
    return "operator" if "/api/admin/" in address else "owner"


def _filled(example: Any, names: dict[str, Any]) -> Any:
    if isinstance(example, list):
        return [_filled(item, names) for item in example]
    if not isinstance(example, dict):
        return example
    return {key: names[key] if key in names else _filled(value, names) for key, value in example.items()}


async def test_every_example_is_taken(actor_harness: ActorHarness) -> None:
    async with httpx.AsyncClient(
        base_url=actor_harness.plane.settings.public_url, trust_env=False, timeout=60
    ) as client:
        setup = await AuthorizationSetup.open(actor_harness.plane, client)
        catalog_api = await actor_harness.catalog_api()
        key = setup.headers["owner"]["authorization"].removeprefix("Bearer ")
        found = (await client.get("/api/me", headers=setup.headers["owner"])).json()
        owner = await _person(actor_harness, found, key)
        sender = Sender(actor_harness, setup, catalog_api, owner)
        operations = await operations_of(client)
        # What ends the worker's session or the owner's password comes last.
        order = sorted(
            (name for name, text in TEXTS.items() if "example" in text),
            key=lambda name: name in ("deregister_worker", "change_password", "revoke_worker"),
        )
        wrong = {}
        for name in order:
            address, operation = operations[name]
            sent = operation["requestBody"]["content"]["application/json"]["example"]
            answer = await sender.send(name, address, sent)
            expected = REFUSED_HERE.get(name)
            if answer.status_code != expected if expected else not answer.is_success:
                wrong[name] = f"{answer.status_code} {answer.text[:300]}"
            elif expected is None:
                assert str(answer.status_code) in operation["responses"], name
    assert wrong == {}


async def _person(actor_harness: ActorHarness, me: dict[str, Any], key: str) -> Person:
    tenants = await actor_harness.plane.accounts.list_tenants(None, 200)
    users = await actor_harness.plane.accounts.list_users(me["tenant"], None, 200)
    user = next(user for user in users.items if str(user.id) == me["user_id"])
    return Person(user, next(tenant for tenant in tenants.items if tenant.slug == me["tenant"]), key)


@pytest.mark.parametrize("path", ["/docs", "/openapi.json"])
async def test_the_document_is_there(client: httpx.AsyncClient, path: str) -> None:
    assert (await client.get(path)).status_code == 200
