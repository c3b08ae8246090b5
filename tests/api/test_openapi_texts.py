"""The OpenAPI document reads well: every operation has a summary, every body an example, and each example works."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest

from callsheet.plumbing.http.api_document import PARAMETER_EXAMPLES, PARAMETERS, TEXTS
from tests.support.http.accounts import PASSWORD, Person
from tests.support.http.actor_harness import ActorHarness
from tests.support.http.authorization_setup import AuthorizationSetup
from tests.support.http.catalog_api import MP4, CatalogApi
from tests.support.http.media_api import MediaApi
from tests.support.jobs.core import Core, Member
from tests.support.media.previews import clip
from tests.support.pipelines.candidate_trees import Tree

Operation = dict[str, Any]
# The words that the rules of plain English leave out.
ODD_WORDS = re.compile(r"\b(whom|nobody|somebody|whoever|begun|told|picture|address|answers)\b", re.IGNORECASE)
NEED_A_RESULT = ("create_share_link", "set_effect_preview")
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
    assert wrong == [], "say it in src/callsheet/plumbing/http/openapi_texts.toml"
    assert len({operation["summary"] for _, operation in found.values()}) == len(found)
    assert TEXTS.keys() - found.keys() == {"parameters", "parameter_examples"}, "these operations are gone"


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


async def test_every_parameter_has_an_example_of_its_form(client: httpx.AsyncClient) -> None:
    wrong, used = {}, set()
    for name, (_, operation) in (await operations_of(client)).items():
        for parameter in operation.get("parameters", ()):
            example, schema = parameter.get("example"), parameter["schema"]
            [item] = example if isinstance(example, list) else [example]
            if not _has_form(item, schema.get("anyOf", [schema.get("items", schema)])[0]):
                wrong[f"{name} {parameter['name']}"] = item
            if item == PARAMETER_EXAMPLES.get(parameter["name"]):
                used.add(parameter["name"])
    assert wrong == {}, "give them an example in openapi_texts.toml"
    assert PARAMETER_EXAMPLES.keys() - used == set(), "no operation has these examples"


def _has_form(example: Any, schema: dict[str, Any]) -> bool:
    match schema.get("type"):
        case "boolean":
            return isinstance(example, bool)
        case "integer" | "number":
            return isinstance(example, int | float) and example >= schema.get("minimum", example)
    is_text = isinstance(example, str) and len(example) <= schema.get("maxLength", len(example))
    return is_text and re.search(schema.get("pattern", ""), example) is not None


async def test_every_body_has_an_example(client: httpx.AsyncClient) -> None:
    found = await operations_of(client)
    bodies = {name for name, (_, operation) in found.items() if takes_json(operation)}
    examples = {name for name, text in TEXTS.items() if "example" in text}
    assert bodies - examples == set(), "give them an example in openapi_texts.toml"
    assert examples - bodies == set(), "these take no body"


class Sender:
    """Sends the examples, with ids of things that are there."""

    def __init__(
        self,
        actor_harness: ActorHarness,
        setup: AuthorizationSetup,
        catalog_api: CatalogApi,
        owner: Person,
        clip: bytes,
    ):
        self.actor_harness = actor_harness
        self.setup = setup
        self.catalog_api = catalog_api
        self.owner = owner
        self.clip = clip
        self.holder: dict[str, str] = {}

    async def send(self, name: str, address: str, example: dict[str, Any]) -> httpx.Response:
        names = await self._names(name)
        body = _filled(example, names)
        method, _, path = address.partition(" ")
        for part, value in (self.setup.names | names).items():
            path = path.replace(f"{{{part}}}", str(value))
        headers = self.holder if name in WORKER_REPORTS else self.setup.headers[_caller(address)]
        if name == "set_effect_preview":
            # The job must be the operator's own.
            headers = self.catalog_api.admin.headers
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
        elif name == "submit_batch":
            names["input_file_ids"] = [await self.catalog_api.file(self.owner)]
        elif name == "sign_parts":
            large = {"name": "a.mp4", "mime_type": "video/mp4", "size": 70_000_000, "resume_key": "a.mp4 of today"}
            declared = await self.catalog_api.made("/api/videos/uploads", large, person=self.owner)
            names["file_id"] = declared["file"]["id"]
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
        elif name == "login_once":
            names["token"] = self.actor_harness.plane.rooms.identity.one_time_links.create(self.owner.user.email)
        elif name == "revoke_worker":
            place = {"worker_id": "revoked", "workflow_slugs": [setup["workflow"]]}
            secret = self.setup.headers["fleet secret"]
            await self.setup.client.post("/api/worker/register", json=place, headers=secret)
            names["worker_id"] = place["worker_id"]
        elif name in NEED_A_RESULT:
            names["job_id"] = await self.completed(
                self.owner if name == "create_share_link" else self.catalog_api.admin
            )
        elif name == "replay_candidate":
            names["candidate_id"] = await self._candidate()
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
        response = await self.setup.client.post("/api/worker/poll", json={}, headers=self.holder)
        job = response.json()["job"]
        if name == "complete":
            await self.setup.client.put(job["output_url"], content=MP4, headers=job["output_headers"])
        return {"dispatch_id": job["dispatch_id"], "lease_token": job["lease_token"]}

    async def _job(self, *, started: bool, failed: bool) -> dict[str, Any]:
        """A job of the owner's that waits in the queue, that a worker has, or that has failed."""
        plane = self.actor_harness.plane
        core = Core(plane.databases, plane.rooms.jobs, [])
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

    async def completed(self, person: Person) -> str:
        """A job of the person's that has made a video."""
        plane = self.actor_harness.plane
        async with MediaApi.opened(plane) as media:
            await media.jobs_api.credit(person, 100)
            owned = MediaApi(media.jobs_api, plane, person)
            await owned.run(await owned.video(self.clip), self.clip)
            [job, *_] = (await owned.ask("GET", "/api/ai-jobs?limit=1")).json()["items"]
        return str(job["id"])

    async def _candidate(self) -> str:
        """Of a job that was made with an effect: others cannot be generated again."""
        plane = self.actor_harness.plane
        member = Member(self.owner.tenant.id, self.owner.user.id, await plane.databases.pool(self.owner.tenant.pool))
        video_id = await self.catalog_api.video(self.owner)
        job = await self.catalog_api.submit(self.owner, {"slug": self.setup.names["effect"]}, video_id=video_id)
        tree = await Tree.plant(Core(plane.databases, plane.rooms.jobs, []), member, status="paused")
        return str(await tree.candidate(job_id=UUID(job["id"]), output_index=0))

    async def _token(self, name: str) -> str:
        """Of a link that was not used yet, and is shown because no mail server is configured."""
        if name == "accept_invitation":
            invited = {"tenant": self.setup.names["tenant"], "email": "dora@example.com"}
            response = await self.catalog_api.made("/api/admin/invitations", invited)
        else:
            user = (await self.actor_harness.person(tenant_of=self.owner)).user
            created = await self.catalog_api.call("POST", f"/api/admin/users/{user.id}/password-reset")
            response = created.json()
        return str(response["link"]).rpartition("/")[2]

    async def _pipeline(self, workflow: str) -> str:
        body = {"slug": "sent", "name": "Sent", "steps": [{"name": "Base", "workflow": workflow}]}
        return str((await self.catalog_api.made("/api/pipelines", body, person=self.owner))["slug"])


def _caller(address: str) -> str:
    if address == "POST /api/keys":
        return "owner's session"
    if address in ("POST /api/wallet/credits", "POST /api/wallet/debits"):
        return "service key"
    if "/api/tenant/" in address:
        return "service key for no user"
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


async def test_every_example_is_accepted(actor_harness: ActorHarness, tmp_path: Path) -> None:
    sender = await _sender(actor_harness, tmp_path)
    operations = await operations_of(sender.setup.client)
    # What needs a completed job comes first: other examples set limits. What ends the worker's session or the
    # owner's password comes last.
    names = [name for name, text in TEXTS.items() if "example" in text]
    last = ("deregister_worker", "change_password", "revoke_worker")
    order = sorted(names, key=lambda name: (name not in NEED_A_RESULT, name in last))
    wrong = {}
    for name in order:
        address, operation = operations[name]
        sent = operation["requestBody"]["content"]["application/json"]["example"]
        response = await sender.send(name, address, sent)
        if not response.is_success:
            wrong[name] = f"{response.status_code} {response.text[:300]}"
        else:
            assert str(response.status_code) in operation["responses"], name
    assert wrong == {}


# Parts of a signed URL and tokens of streams are not made up: these routes have tests of their own. So has the download
# of results (tests/api/test_library_actions.py), which are not there.
SIGNED = ("signature", "token", "last_event_id", "last-event-id")


async def test_every_example_of_a_query_is_accepted(actor_harness: ActorHarness, tmp_path: Path) -> None:
    """Reads with all their parameters. Only what must be there has another value than the example."""
    sender = await _sender(actor_harness, tmp_path)
    setup = sender.setup
    named = {"pipeline": setup.names["pipeline"], "workflow": setup.names["workflow"]}
    wrong, sent = {}, 0
    for name, (address, operation) in (await operations_of(setup.client)).items():
        query = {each["name"]: each["example"] for each in operation.get("parameters", ()) if each["in"] == "query"}
        if not address.startswith("GET ") or not query or query.keys() & set(SIGNED) or name == "download_jobs":
            continue
        path = address.removeprefix("GET ")
        for part, value in setup.names.items():
            path = path.replace(f"{{{part}}}", value)
        given = {each: named.get(each, value) for each, value in query.items()}
        response = await setup.client.get(path, params=given, headers=setup.headers[_caller(address)])
        sent += 1
        if not response.is_success:
            wrong[name] = f"{response.status_code} {response.text[:300]}"
    assert wrong == {}
    assert sent > 40


async def _sender(actor_harness: ActorHarness, tmp_path: Path) -> Sender:
    client = actor_harness.client
    setup = await AuthorizationSetup.open(actor_harness.plane, client)
    found = (await client.get("/api/me", headers=setup.headers["owner"])).json()
    owner = await _person(actor_harness, found, setup.headers["owner"]["authorization"].removeprefix("Bearer "))
    return Sender(actor_harness, setup, await actor_harness.catalog_api(), owner, clip(tmp_path / "clip.mp4"))


async def _person(actor_harness: ActorHarness, me: dict[str, Any], key: str) -> Person:
    tenants = await actor_harness.plane.rooms.identity.accounts.list_tenants(None, 200)
    users = await actor_harness.plane.rooms.identity.accounts.list_users(me["tenant"], None, 200)
    user = next(user for user in users.items if str(user.id) == me["user_id"])
    return Person(user, next(tenant for tenant in tenants.items if tenant.slug == me["tenant"]), key)


@pytest.mark.parametrize("path", ["/docs", "/openapi.json"])
async def test_the_document_is_served(client: httpx.AsyncClient, path: str) -> None:
    assert (await client.get(path)).status_code == 200
