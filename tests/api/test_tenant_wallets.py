"""One wallet for all users of a tenant, by a setting: what operators, servers, admins and users do with it."""

from __future__ import annotations

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.identity.audit_log import AuditLog
from callsheet.wire.identity import Role
from callsheet.wire.operate.audit import AuditFilter
from callsheet.wire.tenant.service_keys import CreateServiceKey, ServiceScope
from tests.support.http.accounts import People, Person
from tests.support.http.catalog_api import CatalogApi
from tests.support.http.event_stream import opened
from tests.support.http.responses import assert_refused

HEADER = "Callsheet-On-Behalf-Of"
CREDIT = {"amount": 50, "provider_transaction_id": "pi_1"}


@pytest.fixture
async def catalog_api(plane: ControlPlane, client: httpx.AsyncClient, people: People) -> CatalogApi:
    return await CatalogApi.open(plane, client, people)


@pytest.fixture
async def ann(catalog_api: CatalogApi) -> Person:
    return await catalog_api.person(tokens=3)


@pytest.fixture
async def server(plane: ControlPlane, ann: Person) -> dict[str, str]:
    """The headers of a service key of the tenant."""
    wanted = CreateServiceKey(name="shop", scopes=list(ServiceScope))
    key = await plane.rooms.identity.service_keys.create(ann.tenant.id, wanted, "operator", may_credit=True)
    return {"authorization": f"Bearer {key.key}"}


async def pay(catalog_api: CatalogApi, person: Person, paid_by: str) -> dict[str, object]:
    path = f"/api/admin/tenants/{person.tenant.id}/wallet"
    changed = await catalog_api.call("PATCH", path, {"paid_by": paid_by})
    assert changed.status_code == 200, changed.text
    shown: dict[str, object] = changed.json()
    return shown


async def test_users_of_a_tenant_that_pays_share_its_tokens_and_see_only_their_own_jobs(
    catalog_api: CatalogApi, plane: ControlPlane, ann: Person
) -> None:
    eve = await catalog_api.person(tokens=0, tenant_of=ann)
    tenant = f"/api/admin/tenants/{ann.tenant.id}/wallet"
    credited = await catalog_api.call("POST", f"{tenant}/credits", CREDIT)
    assert credited.json() == {"balance": 50, "replayed": False}
    assert await catalog_api.shown(ann, "/api/wallet") == {"balance": 3, "held": 0, "paid_by": "user"}
    assert await pay(catalog_api, ann, "tenant") == {"balance": 50, "held": 0, "paid_by": "tenant"}
    effect = await catalog_api.effect(name="Claymation", credits_cost=30)
    body = {"effect_id": effect["slug"], "input_payload": {"prompt": "a cat"}}
    quoted = (await catalog_api.call("POST", "/api/quotes", {"effect": body}, person=eve)).json()
    assert (quoted["balance"], quoted["paid_by"]) == (50, "tenant")
    job = await catalog_api.submit(eve, effect, input_file_id=await catalog_api.file(eve))
    poor = assert_refused(
        await catalog_api.try_submit(ann, effect, input_file_id=await catalog_api.file(ann)), 402, "insufficient_tokens"
    )
    assert (poor["balance"], poor["paid_by"]) == (20, "tenant")
    assert "the wallet of the tenant, from which all its users pay, has 20" in poor["detail"]
    assert await catalog_api.shown(eve, "/api/wallet") == {"balance": 20, "held": 30, "paid_by": "tenant"}
    assert await catalog_api.shown(ann, "/api/wallet") == {"balance": 20, "held": 0, "paid_by": "tenant"}
    lines = (await catalog_api.shown(ann, "/api/wallet/transactions"))["items"]
    assert [(line["type"], line["amount"], line["paid_by"]) for line in lines] == [("PAYMENT_CREDIT", 3, "user")]
    [own] = (await catalog_api.shown(eve, "/api/wallet/transactions"))["items"]
    assert (own["job_id"], own["amount"], own["paid_by"]) == (job["id"], -30, "tenant")
    people = People(plane.rooms.identity.accounts, plane.rooms.identity.keys)
    admin = await people.user(ann.tenant, Role.TENANT_ADMIN)
    assert await catalog_api.shown(admin, tenant) == {"balance": 20, "held": 30, "paid_by": "tenant"}
    whole = (await catalog_api.shown(admin, f"{tenant}/transactions"))["items"]
    assert [(line["type"], line["amount"], line["user_id"]) for line in whole] == [
        ("JOB_RESERVE", -30, str(eve.user.id)),
        ("PAYMENT_CREDIT", 50, None),
    ]
    # The own wallet of a user stays as it was.
    assert await catalog_api.shown(admin, f"/api/admin/users/{ann.user.id}/wallet") == {
        "balance": 3,
        "held": 0,
        "paid_by": "tenant",
    }
    await pay(catalog_api, ann, "user")
    await catalog_api.call("POST", f"/api/ai-jobs/{job['id']}/cancel", person=eve)
    assert await catalog_api.shown(eve, "/api/wallet") == {"balance": 0, "held": 0, "paid_by": "user"}
    assert (await catalog_api.shown(admin, tenant))["balance"] == 50
    wanted = AuditFilter(action="tenant.wallet", subject_type="tenant", subject_id=str(ann.tenant.id))
    found = (await AuditLog(plane.databases).list(wanted, None, 50)).items
    assert [line.details["paid_by"] for line in found] == ["user", "tenant"]


async def test_a_server_credits_and_debits_the_tenant_only_while_it_pays(
    catalog_api: CatalogApi, client: httpx.AsyncClient, ann: Person, server: dict[str, str]
) -> None:
    async def post(what: str, body: dict[str, object]) -> httpx.Response:
        return await client.post(f"/api/wallet/{what}", json=body, headers=server)

    refused = await post("credits", CREDIT)
    assert_refused(refused, 422, "invalid_request", HEADER)
    assert "Each user of this tenant has a wallet" in refused.text
    assert_refused(await client.get("/api/wallet", headers=server), 422, "invalid_request", HEADER)
    await pay(catalog_api, ann, "tenant")
    assert [(await post("credits", CREDIT)).json() for _ in range(2)] == [
        {"balance": 50, "replayed": False},
        {"balance": 50, "replayed": True},
    ]
    debit = {"amount": 20, "reason": "Charged back", "provider_transaction_id": "dp_1"}
    assert (await post("debits", debit)).json() == {"balance": 30, "replayed": False}
    too_much = await post("debits", debit | {"amount": 31, "provider_transaction_id": "dp_2"})
    assert_refused(too_much, 422, "invalid_request", "amount")
    to_ann = {"json": CREDIT | {"amount": 7}, "headers": server | {HEADER: f"user:{ann.user.id}"}}
    assert_refused(await client.post("/api/wallet/credits", **to_ann), 409, "conflict", "provider_transaction_id")
    assert (await client.get("/api/wallet", headers=server)).json() == {"balance": 30, "held": 0, "paid_by": "tenant"}
    lines = (await client.get("/api/wallet/transactions", headers=server)).json()["items"]
    assert [line["amount"] for line in lines] == [-20, 50]
    await pay(catalog_api, ann, "user")
    # A request that is sent again gets its first response.
    assert (await post("credits", CREDIT)).json() == {"balance": 30, "replayed": True}
    assert_refused(await post("credits", CREDIT | {"provider_transaction_id": "pi_2"}), 422, "invalid_request", HEADER)


async def test_streams_of_users_show_a_credit_of_their_tenant_at_once(catalog_api: CatalogApi, ann: Person) -> None:
    await pay(catalog_api, ann, "tenant")
    async with opened(catalog_api.client, ann, "/api/ai-jobs/stream", with_wallet=True) as stream:
        [first] = await stream.next(1)
        assert first.data == {"balance": 0, "held": 0, "paid_by": "tenant"}
        await catalog_api.call("POST", f"/api/admin/tenants/{ann.tenant.id}/wallet/credits", CREDIT)
        [credited] = await stream.next(1)
        assert credited.data == {"balance": 50, "held": 0, "paid_by": "tenant"}
        await pay(catalog_api, ann, "user")
        [own] = await stream.next(1)
        assert own.data == {"balance": 3, "held": 0, "paid_by": "user"}
