"""New passwords: by a user who knows the old one, and by a link. No caller learns whether an account exists."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.wire.identity import Role
from tests.api.conftest import new_ip_address
from tests.support.http.accounts import PASSWORD, People, Person, session_of, sign_in
from tests.support.http.responses import assert_refused

CHANGED = "another long password"


@pytest.fixture
async def operator(people: People) -> Person:
    return await people.admin()


@pytest.fixture
async def ann(people: People) -> Person:
    return await people.user()


async def reset_link(client: httpx.AsyncClient, by: Person, whom: Person) -> str:
    response = await client.post(f"/api/admin/users/{whom.user.id}/password-reset", headers=by.headers)
    assert response.status_code == 201, response.text
    return str(response.json()["link"])


@pytest.mark.parametrize("role", list(Role))
async def test_every_role_changes_its_own_password(client: httpx.AsyncClient, people: People, role: Role) -> None:
    person = await people.user(role=role)
    body = {"current_password": PASSWORD, "new_password": CHANGED}
    assert (await client.post("/api/me/password", json=body, headers=person.headers)).status_code == 204
    assert (await sign_in(client, person, CHANGED)).status_code == 200


async def test_keys_and_other_sessions_end_with_the_password(client: httpx.AsyncClient, people: People) -> None:
    person, colleague = await people.user(), await people.user()
    here, elsewhere = await session_of(client, person), await session_of(client, person)
    body = {"current_password": PASSWORD, "new_password": CHANGED}
    assert (await client.post("/api/me/password", json=body, headers=here)).status_code == 204
    assert (await client.get("/api/me", headers=here)).status_code == 200
    for ended in (elsewhere, person.headers):
        assert_refused(await client.get("/api/me", headers=ended), 401, "not_authenticated")
    assert (await client.get("/api/me", headers=colleague.headers)).status_code == 200
    assert_refused(await sign_in(client, person), 401, "invalid_credentials")
    assert (await sign_in(client, person, CHANGED)).status_code == 200


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"current_password": PASSWORD, "new_password": "short"}, "new_password"),
        ({"new_password": CHANGED}, "current_password"),
    ],
)
async def test_a_change_without_the_current_password_is_refused(
    client: httpx.AsyncClient, ann: Person, body: dict[str, str], field: str
) -> None:
    response = await client.post("/api/me/password", json=body, headers=ann.headers)
    assert_refused(response, 422, "invalid_request", field)
    assert (await sign_in(client, ann)).status_code == 200


async def test_a_wrong_current_password_is_refused_by_field(client: httpx.AsyncClient, ann: Person) -> None:
    body = {"current_password": "not this one", "new_password": CHANGED}
    response = await client.post("/api/me/password", json=body, headers=ann.headers)
    assert_refused(response, 403, "forbidden", "current_password")
    assert (await sign_in(client, ann)).status_code == 200


async def test_wrong_current_passwords_count_as_failed_logins(
    strict_plane: ControlPlane, strict_client: httpx.AsyncClient
) -> None:
    ann = await People(strict_plane.rooms.identity.accounts, strict_plane.rooms.identity.keys).user()
    guess = {"current_password": "a guess", "new_password": CHANGED}
    assert (await sign_in(strict_client, ann, "a guess")).status_code == 401
    changed = await strict_client.post("/api/me/password", json=guess, headers=ann.headers)
    assert_refused(changed, 429, "rate_limited")


async def test_a_link_sets_a_password_once_and_ends_every_session(
    client: httpx.AsyncClient, operator: Person, ann: Person
) -> None:
    before = await session_of(client, ann)
    first, second = await reset_link(client, operator, ann), await reset_link(client, operator, ann)
    page = await client.get(first)
    assert page.status_code == 200
    assert ann.user.email in page.text
    assert (await client.post(first, data={"password": "short"})).status_code == 422
    assert (await client.post(first, data={"password": CHANGED})).status_code == 200
    assert_refused(await client.get("/api/me", headers=before), 401, "not_authenticated")
    assert (await sign_in(client, ann, CHANGED)).status_code == 200
    # Neither this link nor another of before.
    for link in (first, second):
        assert (await client.post(link, data={"password": PASSWORD})).status_code == 404
        token = link.rpartition("/")[2]
        response = await client.post(f"/api/password-resets/{token}", json={"password": PASSWORD})
        assert_refused(response, 404, "not_found")


async def test_one_of_several_links_used_concurrently_sets_the_password(
    client: httpx.AsyncClient, operator: Person, ann: Person
) -> None:
    links = [await reset_link(client, operator, ann) for _ in range(4)]
    passwords = [f"{CHANGED} {number}" for number in range(8)]
    responses = await asyncio.gather(
        *(client.post(link, data={"password": password}) for link, password in zip(links * 2, passwords, strict=True))
    )
    assert sorted(response.status_code for response in responses) == [200] + [404] * 7
    [chosen] = [
        password for password, response in zip(passwords, responses, strict=True) if response.status_code == 200
    ]
    assert (await sign_in(client, ann, chosen)).status_code == 200


@pytest.mark.parametrize("how", ["expired", "disabled", "own change", "became operator"])
async def test_an_invalid_link_is_refused(
    plane: ControlPlane, client: httpx.AsyncClient, operator: Person, ann: Person, how: str
) -> None:
    link = await reset_link(client, operator, ann)
    match how:
        case "expired":
            async with plane.databases.central.connection() as connection:
                await connection.execute("UPDATE account_links SET expires_at = now() - interval '1 second'")
        case "disabled":
            await client.post(f"/api/admin/users/{ann.user.id}/disable", headers=operator.headers)
        case "own change":
            body = {"current_password": PASSWORD, "new_password": CHANGED}
            await client.post("/api/me/password", json=body, headers=ann.headers)
        case "became operator":
            body = {"role": "operator"}
            await client.put(f"/api/admin/users/{ann.user.id}/role", json=body, headers=operator.headers)
    assert (await client.get(link)).status_code == 404
    assert (await client.post(link, data={"password": "mine from now on"})).status_code == 404


async def test_a_tenant_admin_makes_links_for_its_own_users_alone(
    client: httpx.AsyncClient, people: People, ann: Person
) -> None:
    tenant_admin = await people.user(ann.tenant, Role.TENANT_ADMIN)
    assert await reset_link(client, tenant_admin, ann)
    for target, status in ((await people.user(), 404), (await people.user(ann.tenant, Role.OPERATOR), 403)):
        response = await client.post(f"/api/admin/users/{target.user.id}/password-reset", headers=tenant_admin.headers)
        assert response.status_code == status


async def test_a_request_for_a_reset_does_not_show_who_has_an_account(client: httpx.AsyncClient, ann: Person) -> None:
    responses = [
        await client.post("/api/password-resets", json={"email": email})
        for email in (ann.user.email, "nobody@example.com", "no address at all", "")
    ]
    assert {(response.status_code, response.text) for response in responses} == {(202, responses[0].text)}
    assert "sends no mail" in responses[0].json()["message"]
    assert "account/" not in responses[0].text


async def test_requests_for_a_reset_are_limited_by_email_address_and_by_ip_address(
    strict_client: httpx.AsyncClient,
) -> None:
    async def status_of_reset(email: str, address: str) -> int:
        forwarded = {"x-forwarded-for": address}
        return (await strict_client.post("/api/password-resets", json={"email": email}, headers=forwarded)).status_code

    email, address = f"{uuid4()}@example.com", new_ip_address()
    assert [await status_of_reset(email, new_ip_address()) for _ in range(4)] == [202, 202, 202, 429]
    assert [await status_of_reset(f"{uuid4()}@example.com", address) for _ in range(2)] == [202, 429]
