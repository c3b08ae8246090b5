"""A service key acts for users of its tenant, within its scopes, and for no other tenant."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.identity.access import service_keys
from callsheet.identity.audit_log import AuditLog
from callsheet.jobs.stream import feeds as feeds_module
from callsheet.wire.identity import Role, Tenant
from callsheet.wire.operate.audit import AuditFilter
from callsheet.wire.tenant.service_keys import CreatedServiceKey, CreateServiceKey, ServiceScope
from tests.support.http.accounts import People, Person, session_of
from tests.support.http.event_stream import EventStream
from tests.support.http.jobs_api import JobsApi
from tests.support.http.responses import assert_refused

HEADER = "Callsheet-On-Behalf-Of"
WALLET = "/api/wallet"
UPLOAD = {"name": "in.mp4", "mime_type": "video/mp4", "size": 10}


@pytest.fixture
async def jobs_api(plane: ControlPlane, client: httpx.AsyncClient, people: People) -> JobsApi:
    return await JobsApi.open(plane, client, people)


@pytest.fixture
async def ann(people: People) -> Person:
    return await people.user(pool="pool_1")


async def new_key(plane: ControlPlane, tenant: Tenant, *scopes: ServiceScope) -> CreatedServiceKey:
    wanted = CreateServiceKey(name="shop", scopes=list(scopes or ServiceScope))
    return await plane.rooms.identity.service_keys.create(tenant.id, wanted, "operator", may_credit=True)


def acting(key: CreatedServiceKey, for_user: str | None = None) -> dict[str, str]:
    named = {} if for_user is None else {HEADER: for_user}
    return {"authorization": f"Bearer {key.key}", **named}


async def audited(plane: ControlPlane, action: str, user_id: str) -> dict[str, Any]:
    wanted = AuditFilter(action=action, subject_type="user", subject_id=user_id)
    [line] = (await AuditLog(plane.databases).list(wanted, None, 50)).items
    return {"actor": line.actor, **line.details}


async def test_a_service_key_submits_reads_credits_and_debits_for_a_user_of_its_tenant(
    plane: ControlPlane, client: httpx.AsyncClient, jobs_api: JobsApi, ann: Person
) -> None:
    key = await new_key(plane, ann.tenant)
    job = await jobs_api.submit(ann, cost=0)
    for named in (f"user:{ann.user.id}", f"email:{ann.user.email.upper()}"):
        headers = acting(key, named)
        me = (await client.get("/api/me", headers=headers)).json()
        assert (me["user_id"], me["role"], me["scopes"]) == (str(ann.user.id), "user", sorted(ServiceScope))
        assert [each["id"] for each in (await client.get("/api/ai-jobs", headers=headers)).json()["items"]] == [
            job["id"]
        ]
    uploaded = await client.post("/api/videos/uploads", json=UPLOAD, headers=headers)
    assert uploaded.status_code == 201, uploaded.text
    mine = await client.get(f"/api/files/{uploaded.json()['file']['id']}", headers=ann.headers)
    assert mine.status_code == 200
    credit = {"amount": 50, "provider_transaction_id": "pi_1"}
    for replayed in (False, True):
        credited = await client.post(f"{WALLET}/credits", json=credit, headers=headers)
        assert credited.json() == {"balance": 50, "replayed": replayed}
    assert (await client.get(WALLET, headers=ann.headers)).json()["balance"] == 50
    assert await audited(plane, "wallet.credit", str(ann.user.id)) == {
        "actor": f"key:{key.id}",
        "amount": 50,
        "provider_transaction_id": "pi_1",
    }


async def test_the_first_use_of_an_external_id_creates_one_user(
    plane: ControlPlane, client: httpx.AsyncClient, ann: Person
) -> None:
    key = await new_key(plane, ann.tenant)
    headers = acting(key, "external:customer-4711")
    assert_refused(await client.get("/api/ai-jobs", headers=headers), 404, "not_found")
    uploads = [client.post("/api/videos/uploads", json=UPLOAD, headers=headers) for _ in range(5)]
    assert {response.status_code for response in await asyncio.gather(*uploads)} == {201}
    me = (await client.get("/api/me", headers=headers)).json()
    assert me["email"] == f"external-{me['user_id']}@users.invalid"
    admin = await People(plane.rooms.identity.accounts, plane.rooms.identity.keys).user(ann.tenant, Role.TENANT_ADMIN)
    found = (await client.get("/api/admin/users?search=customer-4711", headers=admin.headers)).json()["items"]
    assert [(user["id"], user["external_id"], user["role"]) for user in found] == [
        (me["user_id"], "customer-4711", "user")
    ]
    line = await audited(plane, "user.create", me["user_id"])
    assert line == {"actor": f"key:{key.id}", "external_id": "customer-4711", "role": "user"}
    # No person can sign in to the new account.
    login = {"email": me["email"], "password": "$argon2id$none"}
    assert_refused(await client.post("/api/auth/login", json=login), 401, "invalid_credentials")


async def test_the_same_external_id_is_another_user_in_another_tenant(
    plane: ControlPlane, client: httpx.AsyncClient, people: People, ann: Person
) -> None:
    ids = set()
    for tenant in (ann.tenant, await people.tenant(pool="pool_2")):
        headers = acting(await new_key(plane, tenant), "external:1")
        assert (await client.post("/api/videos/uploads", json=UPLOAD, headers=headers)).status_code == 201
        ids.add((await client.get("/api/me", headers=headers)).json()["user_id"])
    assert len(ids) == 2


async def test_g6_a_service_key_reaches_no_user_of_another_tenant(
    plane: ControlPlane, client: httpx.AsyncClient, people: People, ann: Person
) -> None:
    key = await new_key(plane, (await people.user(pool="pool_1")).tenant)
    unknown = f"user:{uuid4()}"
    texts = set()
    for named in (f"user:{ann.user.id}", f"email:{ann.user.email}", unknown):
        response = await client.get("/api/ai-jobs", headers=acting(key, named))
        assert_refused(response, 404, "not_found")
        texts.add(response.json()["detail"].replace(named, "NAMED"))
    assert len(texts) == 1, "the response does not say whether another tenant has the user"


@pytest.mark.parametrize(
    ("scope", "refused"),
    [
        (ServiceScope.READ, {"submit", "credit"}),
        (ServiceScope.SUBMIT_FOR_USERS, {"read", "credit"}),
        (ServiceScope.CREDIT, {"read", "submit"}),
    ],
)
async def test_a_service_key_does_only_what_its_scopes_allow(
    plane: ControlPlane, client: httpx.AsyncClient, ann: Person, scope: ServiceScope, refused: set[str]
) -> None:
    headers = acting(await new_key(plane, ann.tenant, scope), f"user:{ann.user.id}")
    responses = {
        "read": await client.get("/api/ai-jobs", headers=headers),
        "submit": await client.post("/api/videos/uploads", json=UPLOAD, headers=headers),
        "credit": await client.post(
            f"{WALLET}/credits", json={"amount": 1, "provider_transaction_id": "p"}, headers=headers
        ),
    }
    assert {name for name, response in responses.items() if response.status_code == 403} == refused
    assert {name for name, response in responses.items() if response.is_success} == responses.keys() - refused


async def test_a_read_key_creates_no_user(plane: ControlPlane, client: httpx.AsyncClient, ann: Person) -> None:
    headers = acting(await new_key(plane, ann.tenant, ServiceScope.READ), "external:new")
    assert_refused(await client.post("/api/videos/uploads", json=UPLOAD, headers=headers), 404, "not_found")
    async with plane.databases.central.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM users WHERE external_id = 'new'") == 0


@pytest.mark.parametrize("role", [Role.TENANT_ADMIN, Role.OPERATOR, Role.VIEWER])
async def test_a_service_key_gets_no_rights_from_an_admin_of_its_tenant(
    plane: ControlPlane, client: httpx.AsyncClient, people: People, ann: Person, role: Role
) -> None:
    """A customer of a shop may register there with the e-mail address of the shop's admin."""
    admin = await people.user(ann.tenant, role)
    key = await new_key(plane, ann.tenant)
    for named in (f"email:{admin.user.email}", f"user:{admin.user.id}"):
        assert_refused(await client.get("/api/ai-jobs", headers=acting(key, named)), 403, "forbidden")


@pytest.mark.parametrize(
    "named",
    [
        "",
        "4711",
        "external:",
        "external:a b",
        f"external:{'x' * 129}",
        "external:\xe9",
        "user:4711",
        "email:",
        "EXTERNAL:1",
    ],
)
async def test_a_name_of_another_form_is_refused_and_not_guessed(
    plane: ControlPlane, client: httpx.AsyncClient, ann: Person, named: str
) -> None:
    """An id that people outside choose could otherwise be written so that it means another user."""
    key = await new_key(plane, ann.tenant)
    headers = {"authorization": f"Bearer {key.key}", HEADER: named.encode("latin-1")}
    response = await client.post("/api/videos/uploads", json=UPLOAD, headers=headers)  # type: ignore[arg-type]
    assert_refused(response, 422, "invalid_request", HEADER)


async def test_only_a_service_key_may_name_another_user(
    plane: ControlPlane, client: httpx.AsyncClient, people: People, ann: Person
) -> None:
    named = {HEADER: f"user:{ann.user.id}"}
    admin = await people.user(ann.tenant, Role.TENANT_ADMIN)
    for headers in (admin.headers, (await people.admin()).headers, await session_of(client, admin)):
        assert_refused(await client.get("/api/ai-jobs", headers=headers | named), 403, "forbidden")


async def test_a_disabled_or_deleted_user_is_not_acted_for(
    plane: ControlPlane, client: httpx.AsyncClient, people: People, ann: Person
) -> None:
    admin = await people.user(ann.tenant, Role.TENANT_ADMIN)
    headers = acting(await new_key(plane, ann.tenant), "external:1")
    await client.post("/api/videos/uploads", json=UPLOAD, headers=headers)
    user_id = (await client.get("/api/me", headers=headers)).json()["user_id"]
    await client.post(f"/api/admin/users/{user_id}/disable", headers=admin.headers)
    assert_refused(await client.get("/api/ai-jobs", headers=headers), 403, "forbidden")
    deleted = await client.delete(f"/api/admin/users/{user_id}", headers=admin.headers)
    assert (deleted.status_code, deleted.json()["external_id"]) == (200, None)
    assert_refused(await client.get("/api/ai-jobs", headers=headers), 404, "not_found")
    await client.post("/api/videos/uploads", json=UPLOAD, headers=headers)
    assert (await client.get("/api/me", headers=headers)).json()["user_id"] != user_id


async def test_the_number_of_users_created_on_first_use_is_limited(
    plane: ControlPlane, client: httpx.AsyncClient, ann: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plane.rooms.identity.authentication._on_behalf, "_max_users", 2)
    key = await new_key(plane, ann.tenant)
    first = [
        client.post("/api/videos/uploads", json=UPLOAD, headers=acting(key, f"external:{number}"))
        for number in range(6)
    ]
    statuses = sorted(response.status_code for response in await asyncio.gather(*first))
    assert statuses == [201, 201, 409, 409, 409, 409]
    async with plane.databases.central.connection() as connection:
        query = "SELECT count(*) FROM users WHERE tenant_id = $1 AND external_id IS NOT NULL"
        assert await connection.fetchval(query, ann.tenant.id) == 2


async def test_a_debit_takes_all_or_nothing_and_once(
    plane: ControlPlane, client: httpx.AsyncClient, people: People, ann: Person
) -> None:
    headers = acting(await new_key(plane, ann.tenant), f"user:{ann.user.id}")
    await client.post(f"{WALLET}/credits", json={"amount": 10}, headers=headers | {"Idempotency-Key": "one"})
    debit = {"amount": 7, "reason": "Charged back."}
    refused = await client.post(f"{WALLET}/debits", json=debit, headers=headers)
    assert_refused(refused, 422, "invalid_request", "provider_transaction_id")
    keyed = headers | {"Idempotency-Key": "one"}
    together = [client.post(f"{WALLET}/debits", json=debit, headers=keyed) for _ in range(4)]
    bodies = [response.json() for response in await asyncio.gather(*together)]
    assert sorted(body["replayed"] for body in bodies) == [False, True, True, True]
    assert {body["balance"] for body in bodies} == {3}
    refused = await client.post(f"{WALLET}/debits", json=debit | {"provider_transaction_id": "dp_2"}, headers=headers)
    assert_refused(refused, 422, "invalid_request", "amount")
    assert "only 3 tokens" in refused.json()["detail"]
    refused = await client.post(f"{WALLET}/debits", json=debit | {"amount": 1}, headers=keyed)
    assert_refused(refused, 409, "conflict", "provider_transaction_id")
    lines = (await client.get(f"{WALLET}/transactions", headers=ann.headers)).json()["items"]
    assert [(line["type"], line["amount"], line["reason"]) for line in lines] == [
        ("PAYMENT_DEBIT", -7, "Tokens were taken back: Charged back."),
        ("PAYMENT_CREDIT", 10, "Tokens were added."),
    ]
    line = await audited(plane, "wallet.debit", str(ann.user.id))
    assert (line["amount"], line["reason"], line["provider_transaction_id"]) == (7, "Charged back.", "debit-one")
    operator = await people.admin()
    by_operator = debit | {"amount": 3, "provider_transaction_id": "dp_3"}
    taken = await client.post(f"/api/admin/users/{ann.user.id}/debits", json=by_operator, headers=operator.headers)
    assert taken.json() == {"balance": 0, "replayed": False}


async def test_admins_of_a_tenant_make_list_and_revoke_its_keys(
    plane: ControlPlane, client: httpx.AsyncClient, people: People, ann: Person
) -> None:
    admin = await people.user(ann.tenant, Role.TENANT_ADMIN)
    path = f"/api/admin/tenants/{ann.tenant.id}/service-keys"
    wanted = {"name": "shop", "scopes": ["submit_for_users", "read", "read"]}
    assert_refused(await client.post(path, json=wanted, headers=ann.headers), 403, "forbidden")
    created = await client.post(path, json=wanted, headers=admin.headers)
    assert (created.status_code, created.json()["scopes"]) == (201, ["read", "submit_for_users"])
    key = created.json()
    headers = {"authorization": f"Bearer {key['key']}", HEADER: f"user:{ann.user.id}"}
    assert (await client.get("/api/ai-jobs", headers=headers)).status_code == 200
    listed = (await client.get(path, headers=admin.headers)).json()["items"]
    assert [each["id"] for each in listed] == [key["id"]]
    assert "key" not in listed[0]
    # The key belongs to the tenant: it is in no list of its maker, and stays when the maker leaves.
    assert key["id"] not in (await client.get("/api/keys", headers=admin.headers)).text
    revoked = await client.delete(f"{path}/{key['id']}", headers=admin.headers)
    assert revoked.json()["revoked_at"] is not None
    assert_refused(await client.get("/api/ai-jobs", headers=headers), 401, "not_authenticated")


async def test_only_an_operator_gives_the_scope_credit(client: httpx.AsyncClient, people: People, ann: Person) -> None:
    """Otherwise a tenant would give itself tokens that the operator sells."""
    path = f"/api/admin/tenants/{ann.tenant.id}/service-keys"
    wanted = {"name": "shop", "scopes": ["credit"]}
    admin = await people.user(ann.tenant, Role.TENANT_ADMIN)
    assert_refused(await client.post(path, json=wanted, headers=admin.headers), 403, "forbidden")
    operator = await people.admin()
    assert (await client.post(path, json=wanted, headers=operator.headers)).status_code == 201


async def test_the_number_of_service_keys_is_limited(
    plane: ControlPlane, ann: Person, monkeypatch: pytest.MonkeyPatch, client: httpx.AsyncClient, people: People
) -> None:
    monkeypatch.setattr(service_keys, "MAX_SERVICE_KEYS", 1)
    await new_key(plane, ann.tenant)
    operator = await people.admin()
    path = f"/api/admin/tenants/{ann.tenant.id}/service-keys"
    refused = await client.post(path, json={"name": "x", "scopes": ["read"]}, headers=operator.headers)
    assert_refused(refused, 409, "quota_exceeded")


@pytest.mark.parametrize("with_token", [False, True])
async def test_a_stream_for_a_user_ends_when_the_service_key_is_revoked(
    plane: ControlPlane,
    client: httpx.AsyncClient,
    jobs_api: JobsApi,
    ann: Person,
    monkeypatch: pytest.MonkeyPatch,
    *,
    with_token: bool,
) -> None:
    monkeypatch.setattr(feeds_module, "RECHECK_SECONDS", 600.0)
    key = await new_key(plane, ann.tenant)
    headers, query = acting(key, f"user:{ann.user.id}"), ""
    if with_token:
        token = (await client.post("/api/stream-tokens", json={}, headers=headers)).json()["token"]
        headers, query = {}, f"?token={token}"
    async with client.stream("GET", f"/api/ai-jobs/stream{query}", headers=headers) as response:
        stream = EventStream(response)
        await stream.comment("open")
        await jobs_api.submit(ann, cost=0)
        assert [event.name for event in await stream.next(1)] == ["job.created"]
        await plane.rooms.identity.service_keys.revoke(ann.tenant.id, key.id, "operator")
        await stream.rest()
    assert_refused(await client.get(f"/api/ai-jobs/stream{query}", headers=headers), 401, "not_authenticated")


async def test_a_stream_token_of_a_service_key_without_a_user_opens_nothing(
    plane: ControlPlane, client: httpx.AsyncClient, ann: Person
) -> None:
    key = await new_key(plane, ann.tenant)
    refused = await client.post("/api/stream-tokens", json={}, headers=acting(key))
    assert_refused(refused, 422, "invalid_request", HEADER)
