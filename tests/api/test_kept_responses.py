"""A repeated request with the same Idempotency-Key gets the response of the first one, and creates nothing (G5). Jobs
and money: tests/api/test_idempotency_keys.py.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.identity.access.kept_responses import ABANDONED, KEPT, MAX_KEYS
from callsheet.plumbing.failpoints import Crashed, Failpoint, armed, crash
from callsheet.plumbing.http.once import KeptResponse, KeyedRequest
from callsheet.plumbing.http.routing import DeclaredRoute
from callsheet.wire.errors import ResponseNotKept
from callsheet.wire.identity import Role
from callsheet.wire.tenant.service_keys import CreateServiceKey, ServiceScope
from tests.support.http.accounts import PASSWORD, People, Person, session_of
from tests.support.http.authorization_setup import AuthorizationSetup
from tests.support.http.catalog_api import MP4, CatalogApi, workflow
from tests.support.http.media_api import CLIP, MediaApi
from tests.support.http.responses import assert_refused
from tests.support.pipelines.pipeline_harness import BASE

STATE = "It changes a status or a value, and a repeated request finds it changed."
READS = "It only reads and computes."
SIGNED = "Nothing is stored: the response is signed, and a second one does no harm."
ONE_TIME = "Its link or token works once, and its caller is not known yet."
ACCOUNT = "A session or a password: a repeated request ends in the same state."
WORKERS = "The worker protocol: the lease, the session or the boot of the worker identifies the request."
CALLBACK = "The provider that sends it knows no header. The id in the URL identifies the call."
# Each POST that ignores the header, and why. A new route takes the header, or is added here.
IGNORED = {
    STATE: """
        /api/admin/assets/{asset_id}/confirm
        /api/admin/bulk-actions/{bulk_action_id}/stop
        /api/admin/dispatches/{dispatch_id}/cancel
        /api/admin/dispatches/{dispatch_id}/priority
        /api/admin/fleets/{fleet_id}/tokens/{fleet_token_id}/revoke
        /api/admin/jobs/{job_id}/cancel
        /api/admin/providers/{provider}/reset
        /api/admin/tenants/{tenant_id}/disable
        /api/admin/tenants/{tenant_id}/enable
        /api/admin/tenants/{tenant_id}/jobs/{job_id}/cancel
        /api/admin/users/{user_id}/disable
        /api/admin/users/{user_id}/enable
        /api/admin/workers/{worker_id}/approve
        /api/admin/workers/{worker_id}/drain
        /api/admin/workers/{worker_id}/revoke
        /api/admin/workers/{worker_id}/undrain
        /api/admin/workflows/{workflow}/activate
        /api/admin/workflows/{workflow}/deactivate
        /api/ai-jobs/{job_id}/cancel
        /api/batches/{batch_id}/cancel
        /api/candidates/{candidate_id}/kill
        /api/candidates/{candidate_id}/restore
        /api/library/cancel
        /api/library/delete
        /api/runs/{run_id}/cancel
        /api/runs/{run_id}/pause
        /api/runs/{run_id}/steps/{step}/approve
        /api/runs/{run_id}/votes
        /api/task/{task_id}/cancel
        /api/videos/uploads/{file_id}/confirm
    """,
    READS: """
        /api/admin/workflows/proposals
        /api/pipelines/preview
        /api/providers/{provider}/preview
        /api/quotes
    """,
    SIGNED: """
        /api/stream-tokens
        /api/videos/uploads/{file_id}/parts
    """,
    ONE_TIME: """
        /api/auth/once
        /api/invitations/{token}
        /api/password-resets
        /api/password-resets/{token}
    """,
    ACCOUNT: """
        /api/auth/demo
        /api/auth/login
        /api/auth/logout
        /api/me/password
    """,
    WORKERS: """
        /api/worker/complete
        /api/worker/defer
        /api/worker/deregister
        /api/worker/environment
        /api/worker/fail
        /api/worker/heartbeat
        /api/worker/poll
        /api/worker/register
        /api/worker/requeue
    """,
    CALLBACK: """
        /api/webhooks/{provider}/{callback_id}
    """,
}
UPLOAD = {"name": "a.mp4", "mime_type": "video/mp4", "size": len(MP4)}
STEP = {"name": "Base", "needs_run_prompt": True}
# Who sends it, and what.
Sent = tuple[str, Callable[[AuthorizationSetup], dict[str, Any]]]


def unique() -> str:
    return f"made-{uuid4().hex[:12]}"


def empty(setup: AuthorizationSetup) -> dict[str, Any]:
    return {}


# The routes whose responses are kept. What they create has no natural key here, or a new one in each test.
KEPT_ROUTES: dict[str, Sent] = {
    "/api/admin/alerts/test": ("operator", empty),
    "/api/admin/assets": ("operator", lambda setup: {"name": "a.png", "mime_type": "image/png", "size": 5}),
    "/api/admin/dispatches/{dispatch_id}/requeue": ("operator", empty),
    "/api/admin/effects": (
        "operator",
        lambda setup: {"slug": unique(), "name": "An effect", "workflow": setup.names["workflow"]},
    ),
    "/api/admin/fleets": ("operator", lambda setup: {"slug": unique()}),
    "/api/admin/fleets/{fleet_id}/tokens": ("operator", empty),
    "/api/admin/fleets/{fleet_id}/tokens/{fleet_token_id}/rotate": ("operator", empty),
    "/api/admin/invitations": (
        "tenant admin",
        lambda setup: {"tenant": setup.names["tenant"], "email": f"{unique()}@example.com"},
    ),
    "/api/admin/ledger-audits": ("operator", empty),
    "/api/admin/mails/{mail_id}/send": ("operator", empty),
    "/api/admin/tenants": ("operator", lambda setup: {"slug": unique(), "name": "A tenant"}),
    "/api/admin/tenants/{tenant_id}/budgets": (
        "tenant admin",
        lambda setup: {"name": unique(), "period": "day", "limit": 1000},
    ),
    "/api/admin/tenants/{tenant_id}/service-keys": ("operator", lambda setup: {"name": "shop", "scopes": ["read"]}),
    "/api/admin/users": (
        "operator",
        lambda setup: {"tenant": setup.names["tenant"], "email": f"{unique()}@example.com", "password": PASSWORD},
    ),
    "/api/admin/users/{user_id}/keys": ("operator", lambda setup: {"name": "another"}),
    "/api/admin/users/{user_id}/password-reset": ("operator", empty),
    "/api/admin/workers/{worker_id}/rotate-token": ("operator", empty),
    "/api/admin/workflows": ("operator", lambda setup: workflow(setup.names["asset_id"], slug=unique())),
    "/api/keys": ("owner's session", lambda setup: {"name": "mine"}),
    "/api/library/retry": ("owner", lambda setup: {"job_ids": [setup.names["job_id"]]}),
    "/api/pipelines": (
        "owner",
        lambda setup: {"slug": unique(), "name": "P", "steps": [STEP | {"workflow": setup.names["image_workflow"]}]},
    ),
    "/api/runs/{run_id}/resume": ("owner", empty),
    "/api/videos": ("owner", lambda setup: {"title": "A clip", "original_file_id": setup.names["file_id"]}),
    "/api/videos/uploads": ("service key", lambda setup: UPLOAD),
    "/api/webhook-endpoints": ("owner", lambda setup: {"url": "https://shop.example.com/hook"}),
    "/api/webhook-endpoints/{endpoint_id}/deliveries/{delivery_id}/redeliver": ("owner", empty),
    "/api/webhook-endpoints/{endpoint_id}/replay": ("owner", lambda setup: {"since": "2026-01-01T00:00:00Z"}),
    "/api/webhook-endpoints/{endpoint_id}/rotate-secret": ("owner", empty),
    "/api/webhook-endpoints/{endpoint_id}/test": ("owner", empty),
}
# Its job must have completed: see below.
SHARES = "/api/ai-jobs/{job_id}/shares"


async def send(
    setup: AuthorizationSetup, caller: str, path: str, body: dict[str, Any], key: str | None
) -> httpx.Response:
    for name, value in setup.names.items():
        path = path.replace(f"{{{name}}}", value)
    headers = setup.headers[caller] | ({} if key is None else {"Idempotency-Key": key})
    return await setup.client.post(path, json=body, headers=headers)


async def test_every_post_takes_the_key_or_says_why_not(plane: ControlPlane, client: httpx.AsyncClient) -> None:
    paths = (await client.get("/openapi.json")).json()["paths"]
    posts = {path: methods["post"] for path, methods in paths.items() if "post" in methods}
    takes = {
        path
        for path, operation in posts.items()
        if "idempotency-key" in [each["name"] for each in operation.get("parameters", ())]
    }
    ignores = {line.strip() for lines in IGNORED.values() for line in lines.splitlines() if line.strip()}
    assert posts.keys() - takes == ignores, "say in IGNORED why it ignores the header, or declare it with once=True"
    routes = [each for each in plane.http.document.routes if isinstance(each, DeclaredRoute)]
    assert {each.path for each in routes if each.once} == {*KEPT_ROUTES, SHARES}, "say in KEPT_ROUTES how to call it"


async def test_g5_a_repeated_request_gets_the_response_of_the_first_one(
    plane: ControlPlane, client: httpx.AsyncClient, people: People
) -> None:
    setup = await AuthorizationSetup.open(plane, client)
    catalog_api = await CatalogApi.open(plane, client, people)
    setup.names["image_workflow"] = await catalog_api.sold_image_workflow(BASE | {"save": BASE["9"]})
    # No kept response may be readable in the database, because some have secrets.
    shown = set()
    for path, (caller, body_of) in KEPT_ROUTES.items():
        key, body = unique(), body_of(setup)
        first = await send(setup, caller, path, body, key)
        assert first.is_success, f"{path}: {first.text}"
        assert "idempotent-replayed" not in first.headers
        again = await send(setup, caller, path, body, key)
        assert again.headers.get("idempotent-replayed") == "true", f"{path}: {again.text}"
        assert (again.status_code, again.json()) == (first.status_code, first.json()), path
        assert again.headers["content-type"] == first.headers["content-type"]
        shown |= {value for value in first.json().values() if isinstance(value, str) and len(value) > 20}
    async with plane.databases.central.connection() as connection:
        rows = await connection.fetch("SELECT request, response FROM kept_responses")
    assert len(rows) == len(KEPT_ROUTES)
    stored = b"".join(row["request"] + row["response"] for row in rows)
    assert shown
    assert not [value for value in shown if value.encode() in stored]


@pytest.fixture
async def ann(people: People) -> Person:
    return await people.user(pool="pool_1")


async def upload(client: httpx.AsyncClient, person: Person, key: str = "up-1", **change: Any) -> httpx.Response:
    headers = person.headers | {"Idempotency-Key": key}
    return await client.post("/api/videos/uploads", json=UPLOAD | change, headers=headers)


async def test_g5_another_request_with_the_same_key_is_refused_and_says_what_differs(
    client: httpx.AsyncClient, ann: Person, people: People
) -> None:
    first = await upload(client, ann)
    assert first.status_code == 201, first.text
    refused = assert_refused(await upload(client, ann, name="b.mp4"), 422, "idempotency_key_reused", "name")
    assert "An earlier request with this key differs in name." in refused["detail"]
    # Also with another route, whatever its body.
    headers = ann.headers | {"Idempotency-Key": "up-1"}
    other = await client.post("/api/webhook-endpoints", json={"url": "https://shop.example.com/a"}, headers=headers)
    refused = assert_refused(other, 422, "idempotency_key_reused", "header.idempotency-key")
    assert "POST /api/videos/uploads" in refused["detail"]
    # A repeated request is checked like the first one.
    assert_refused(await upload(client, ann, size=-1), 422, "invalid_request", "size")
    # The keys of another user are others.
    bob = await people.user(ann.tenant)
    theirs = await upload(client, bob, name="b.mp4")
    assert (theirs.status_code, "idempotent-replayed" in theirs.headers) == (201, False)
    for wrong in ("", "x" * 201):
        assert_refused(await upload(client, ann, wrong), 422, "invalid_request", "header.idempotency-key")


async def test_a_refused_request_keeps_no_key(client: httpx.AsyncClient, ann: Person) -> None:
    headers = ann.headers | {"Idempotency-Key": "hook"}
    wrong = await client.post("/api/webhook-endpoints", json={"url": "https://10.0.0.1/hook"}, headers=headers)
    assert wrong.status_code == 422
    right = await client.post("/api/webhook-endpoints", json={"url": "https://shop.example.com/a"}, headers=headers)
    assert (right.status_code, "idempotent-replayed" in right.headers) == (201, False), right.text


async def test_a_key_created_with_a_session_is_not_shown_to_an_api_key_again(
    client: httpx.AsyncClient, ann: Person
) -> None:
    key = {"Idempotency-Key": "first-key"}
    made = await client.post("/api/keys", json={"name": "mine"}, headers=await session_of(client, ann) | key)
    assert made.status_code == 201
    assert_refused(await client.post("/api/keys", json={"name": "mine"}, headers=ann.headers | key), 403, "forbidden")
    again = await client.post("/api/keys", json={"name": "mine"}, headers=await session_of(client, ann) | key)
    assert again.json() == made.json()


async def test_a_service_key_has_keys_for_each_user_that_it_acts_for(
    plane: ControlPlane, client: httpx.AsyncClient, ann: Person
) -> None:
    wanted = CreateServiceKey(name="shop", scopes=[ServiceScope.READ, ServiceScope.SUBMIT_FOR_USERS])
    made = await plane.rooms.identity.service_keys.create(ann.tenant.id, wanted, "operator", may_credit=False)
    bearer = {"authorization": f"Bearer {made.key}", "Idempotency-Key": "order-1"}
    found = {}
    for user in ("external:7", "external:8"):
        for _ in range(2):
            headers = bearer | {"Callsheet-On-Behalf-Of": user}
            response = await client.post("/api/videos/uploads", json=UPLOAD, headers=headers)
            assert response.status_code == 201, response.text
            found.setdefault(user, set()).add(response.json()["file"]["id"])
    assert [len(ids) for ids in found.values()] == [1, 1]
    assert found["external:7"] != found["external:8"]
    # The user's own key repeats the request of the server.
    own = await upload(client, ann)
    headers = bearer | {"Callsheet-On-Behalf-Of": f"user:{ann.user.id}", "Idempotency-Key": "up-1"}
    assert (await client.post("/api/videos/uploads", json=UPLOAD, headers=headers)).json() == own.json()


async def test_a_share_link_is_created_once(plane: ControlPlane) -> None:
    async with MediaApi.opened(plane) as media_api:
        job = await media_api.jobs_api.submit(media_api.person)
        await media_api.complete(await media_api.jobs_api.start(), CLIP)
        headers = media_api.person.headers | {"Idempotency-Key": "share"}
        path = SHARES.format(job_id=job["id"])
        links = [await media_api.jobs_api.client.post(path, json={}, headers=headers) for _ in range(2)]
        assert [link.status_code for link in links] == [201, 201]
        assert links[0].json() == links[1].json()
        assert len((await media_api.ask("GET", path)).json()["items"]) == 1


async def age(plane: ControlPlane, person: Person, seconds: float) -> None:
    async with plane.databases.central.connection() as connection:
        await connection.execute(
            "UPDATE kept_responses SET created_at = created_at - make_interval(secs => $2), "
            "renewed_at = renewed_at - make_interval(secs => $2) WHERE caller_id = $1",
            person.user.id,
            seconds,
        )


async def count(plane: ControlPlane, person: Person) -> int:
    async with plane.databases.central.connection() as connection:
        query = "SELECT count(*) FROM kept_responses WHERE caller_id = $1"
        return int(await connection.fetchval(query, person.user.id))


async def test_a_key_is_free_again_after_a_day(plane: ControlPlane, client: httpx.AsyncClient, ann: Person) -> None:
    first = await upload(client, ann)
    await age(plane, ann, KEPT.total_seconds() - 60)
    assert (await upload(client, ann)).json() == first.json()
    await plane.rooms.identity.sweeper.tick(datetime.now(UTC))
    assert await count(plane, ann) == 1
    await age(plane, ann, 60)
    # Also before it was deleted, and for another request.
    assert "idempotent-replayed" not in (await upload(client, ann, name="b.mp4")).headers
    await plane.rooms.identity.sweeper.tick(datetime.now(UTC) + KEPT + timedelta(seconds=1))
    assert await count(plane, ann) == 0


async def test_a_user_has_a_limited_number_of_kept_responses_and_none_after_the_deletion(
    plane: ControlPlane, client: httpx.AsyncClient, people: People, ann: Person
) -> None:
    first = await upload(client, ann, "first")
    async with plane.databases.central.connection() as connection:
        await connection.execute(
            "INSERT INTO kept_responses (caller_id, key_hash, claim_id, request, status, response) "
            "SELECT $1, sha256(n::text::bytea), gen_random_uuid(), '', 201, '' FROM generate_series(1, $2) n",
            ann.user.id,
            MAX_KEYS,
        )
    last = await upload(client, ann, "last")
    assert await count(plane, ann) == MAX_KEYS
    # The oldest one has gone.
    assert (await upload(client, ann, "last")).json() == last.json()
    assert (await upload(client, ann, "first")).json() != first.json()
    operator = await people.admin()
    deleted = await client.delete(f"/api/admin/users/{ann.user.id}", headers=operator.headers)
    assert deleted.is_success, deleted.text
    assert await count(plane, ann) == 0


async def test_the_bytes_of_kept_responses_are_limited(plane: ControlPlane, client: httpx.AsyncClient) -> None:
    keeper, caller = plane.rooms.identity.kept_responses, uuid4()

    async def request(key: str, length: int) -> KeptResponse:
        claim = await keeper.claim(KeyedRequest(caller, key, "POST /api/pipelines", {}))
        if isinstance(claim, KeptResponse):
            return claim
        await claim.keep(KeptResponse(201, "x" * length))
        return KeptResponse(201, "new")

    for number in range(8):
        assert (await request(str(number), 900_000)).content == "new"
    assert len((await request("7", 0)).content) == 900_000
    assert (await request("0", 10)).content == "new"
    # One that is too large is not kept, and not carried out again.
    await request("large", 1_000_001)
    with pytest.raises(ResponseNotKept, match="Its response was too large to keep"):
        await request("large", 1)


async def test_a_crash_before_the_response_is_kept_frees_the_key_after_a_while(
    plane: ControlPlane, ann: Person, people: People
) -> None:
    """Run without a server between, so that the process of the request can end."""
    operator = await people.user(role=Role.OPERATOR)
    transport = httpx.ASGITransport(plane.http.asgi)
    async with httpx.AsyncClient(transport=transport, base_url=plane.settings.public_url) as client:

        async def create(slug: str = "crashed") -> httpx.Response:
            headers = operator.headers | {"Idempotency-Key": "tenant"}
            return await client.post("/api/admin/tenants", json={"slug": slug, "name": "T"}, headers=headers)

        with armed({Failpoint.REQUEST_BEFORE_RESPONSE: crash}), pytest.raises(Crashed):
            await create()
        refused = await create()
        assert_refused(refused, 409, "request_in_progress")
        assert refused.headers["retry-after"] == "2"
        await age(plane, operator, ABANDONED.total_seconds())
        # The first one created the tenant. Nothing says so here but its slug.
        assert_refused(await create(), 409, "conflict", "slug")
        assert (await create("another")).status_code == 201
