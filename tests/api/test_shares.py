"""The share of the workers that a tenant gets: an operator can change it, and jobs that wait for it show it."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.wire.identity import Role
from tests.support.http.accounts import People, Person
from tests.support.http.responses import assert_refused


async def ask(client: httpx.AsyncClient, person: Person, tenant: object, **changes: object) -> httpx.Response:
    method = "PATCH" if changes else "GET"
    path = f"/api/admin/tenants/{tenant}/share"
    return await client.request(method, path, json=changes or None, headers=person.headers)


async def test_an_operator_changes_weight_and_limits(
    client: httpx.AsyncClient, people: People, plane: ControlPlane
) -> None:
    operator, tenant = await people.admin(), await people.tenant()
    nothing: dict[str, Any] = {"max_running": None, "max_running_per_user": None, "running": 0}
    assert (await ask(client, operator, tenant.id)).json() == {"tenant": tenant.slug, "weight": 1.0, **nothing}
    changed = (await ask(client, operator, tenant.id, weight=0.5, max_running=4)).json()
    assert changed == {"tenant": tenant.slug, "weight": 0.5, **nothing, "max_running": 4}
    changed = (await ask(client, operator, tenant.id, weight=None, max_running_per_user=2)).json()
    assert (changed["weight"], changed["max_running"], changed["max_running_per_user"]) == (1.0, 4, 2)
    count = "SELECT count(*) FROM audit_logs WHERE action = 'tenant.share' AND tenant_id = $1"
    async with plane.databases.central.connection() as connection:
        assert await connection.fetchval(count, tenant.id) == 2
    nobody = await ask(client, operator, "01900000-0000-7000-8000-000000000000", weight=2)
    assert_refused(nobody, 404, "not_found")


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"weight": 0}, "weight"),
        ({"weight": 1001}, "weight"),
        ({"weight": True}, "weight"),
        ({"weight": "heavy"}, "weight"),
        ({"max_running": -1}, "max_running"),
        ({"max_running": 1.5}, "max_running"),
        ({"most": 1}, "most"),
    ],
)
async def test_a_wrong_share_names_its_field(
    client: httpx.AsyncClient, people: People, changes: dict[str, object], field: str
) -> None:
    response = await ask(client, await people.admin(), (await people.tenant()).id, **changes)
    assert_refused(response, 422, "invalid_request", field)


async def test_a_tenant_admin_sees_its_share_and_changes_nothing(client: httpx.AsyncClient, people: People) -> None:
    tenant = await people.tenant()
    tenant_admin = await people.user(tenant, Role.TENANT_ADMIN)
    assert (await ask(client, tenant_admin, tenant.id)).status_code == 200
    assert_refused(await ask(client, tenant_admin, tenant.id, weight=9), 403, "forbidden")
