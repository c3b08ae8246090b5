"""Every change by an admin is recorded with its actor: every route of the OpenAPI document except the GET routes."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.toolbox.ids import uuid7
from tests.support.http.accounts import PASSWORD, People
from tests.support.http.authorization_setup import AuthorizationSetup
from tests.support.http.catalog_api import PNG, CatalogApi, workflow
from tests.support.media.previews import image

_numbers = itertools.count(1)
Body = Mapping[str, Any]
# Creates what the request needs, and returns the names for the URL path that differ from those of the setup.
Prepare = Callable[[AuthorizationSetup, CatalogApi], Awaitable[Mapping[str, str]]]


def _unique() -> str:
    return f"audit-{next(_numbers)}"


async def _nothing(setup: AuthorizationSetup, catalog_api: CatalogApi) -> Mapping[str, str]:
    return {}


async def _drained_worker(setup: AuthorizationSetup, catalog_api: CatalogApi) -> Mapping[str, str]:
    assert (await catalog_api.call("POST", f"/api/admin/workers/{setup.names['worker_id']}/drain")).is_success
    return {}


async def _fleet_without_scaling(setup: AuthorizationSetup, catalog_api: CatalogApi) -> Mapping[str, str]:
    assert (await catalog_api.call("DELETE", f"/api/admin/fleets/{setup.names['fleet_id']}/scaling")).is_success
    return {}


async def _failed_job(setup: AuthorizationSetup, catalog_api: CatalogApi) -> Mapping[str, str]:
    report = {**setup.lease, "error_message": "It broke."}
    assert (await setup.ask("worker", "POST /api/worker/fail", report)).is_success
    return {}


async def _effect_without_jobs(setup: AuthorizationSetup, catalog_api: CatalogApi) -> Mapping[str, str]:
    body = {"slug": _unique(), "name": "Unused", "workflow": setup.names["workflow"]}
    return {"effect": (await catalog_api.made("/api/admin/effects", body))["id"]}


async def _workflow_without_use(setup: AuthorizationSetup, catalog_api: CatalogApi) -> Mapping[str, str]:
    made = await catalog_api.workflow(is_active=False)
    return {"workflow": made["slug"]}


async def _uploaded_asset(setup: AuthorizationSetup, catalog_api: CatalogApi) -> Mapping[str, str]:
    declared = {"name": "a.png", "mime_type": "image/png", "size": len(PNG)}
    created = await catalog_api.made("/api/admin/assets", declared)
    await catalog_api.put(created["upload"], PNG)
    return {"asset_id": created["asset"]["id"]}


async def _image_asset(setup: AuthorizationSetup, catalog_api: CatalogApi) -> Mapping[str, str]:
    return {"picture_id": await catalog_api.add_asset(image(50, 40))}


async def _effect_with_a_preview(setup: AuthorizationSetup, catalog_api: CatalogApi) -> Mapping[str, str]:
    body = {"after_asset_id": await catalog_api.add_asset(image(50, 40))}
    assert (await catalog_api.call("PUT", f"/api/admin/effects/{setup.names['effect']}/preview", body)).is_success
    return {}


async def _disabled_user(setup: AuthorizationSetup, catalog_api: CatalogApi) -> Mapping[str, str]:
    assert (await catalog_api.call("POST", f"/api/admin/users/{setup.names['user_id']}/disable")).is_success
    return {}


async def _disabled_user_without_jobs(setup: AuthorizationSetup, catalog_api: CatalogApi) -> Mapping[str, str]:
    user_id = str((await catalog_api.person("pool_1")).user.id)
    assert (await catalog_api.call("POST", f"/api/admin/users/{user_id}/disable")).is_success
    return {"user_id": user_id}


async def _tokens_of_the_tenant(setup: AuthorizationSetup, catalog_api: CatalogApi) -> Mapping[str, str]:
    credit = {"amount": 1, "provider_transaction_id": _unique()}
    route = f"/api/admin/tenants/{setup.names['tenant_id']}/wallet/credits"
    assert (await catalog_api.call("POST", route, credit)).is_success
    return {}


async def _session(setup: AuthorizationSetup, catalog_api: CatalogApi) -> Mapping[str, str]:
    [session] = (await setup.ask("operator", "GET /api/admin/users/{user_id}/sessions")).json()
    return {"session_id": session["id"]}


async def _disabled_tenant(setup: AuthorizationSetup, catalog_api: CatalogApi) -> Mapping[str, str]:
    assert (await catalog_api.call("POST", f"/api/admin/tenants/{setup.names['tenant_id']}/disable")).is_success
    return {}


async def _queued_dispatch(setup: AuthorizationSetup, catalog_api: CatalogApi) -> Mapping[str, str]:
    assert (await setup.ask("worker", "POST /api/worker/requeue", {**setup.lease, "reason": "for a test"})).is_success
    return {}


SAVED = {
    "3": {"class_type": "EmptyImage", "inputs": {"width": 8}},
    "9": {"class_type": "SaveVideo", "inputs": {"video": ["3", 0]}},
}


async def _running_bulk_action(plane: ControlPlane) -> Mapping[str, str]:
    """Another control plane has its lease, so it stays as it is."""
    query = """INSERT INTO bulk_actions (id, action, filter, created_by, lease_token, lease_expires_at)
               VALUES ($1, 'cancel', '{}', $1, $1, now() + interval '1 hour')"""
    action_id = uuid7()
    async with plane.databases.central.connection() as connection:
        await connection.execute(query, action_id)
    return {"bulk_action_id": str(action_id)}


# A route that is not listed here gets an empty body and the setup as it is.
BODIES: dict[str, Callable[[AuthorizationSetup], Body]] = {
    "PATCH /api/admin/tenants/{tenant_id}/quotas": lambda setup: {"keys_per_user": 90},
    "PATCH /api/admin/tenants/{tenant_id}/share": lambda setup: {"weight": 2},
    "POST /api/admin/tenants": lambda setup: {"slug": _unique(), "name": "A tenant"},
    "POST /api/admin/users": lambda setup: {
        "tenant": setup.names["tenant"],
        "email": f"{_unique()}@example.com",
        "password": PASSWORD,
    },
    "POST /api/admin/invitations": lambda setup: {"tenant": setup.names["tenant"], "email": f"{_unique()}@example.com"},
    "PUT /api/admin/users/{user_id}/role": lambda setup: {"role": "tenant_admin"},
    "POST /api/admin/users/{user_id}/keys": lambda setup: {"name": "another"},
    "POST /api/admin/users/{user_id}/credits": lambda setup: {"amount": 5, "provider_transaction_id": _unique()},
    "POST /api/admin/users/{user_id}/debits": lambda setup: {
        "amount": 1,
        "provider_transaction_id": _unique(),
        "reason": "chargeback",
    },
    "PATCH /api/admin/tenants/{tenant_id}/wallet": lambda setup: {"paid_by": "user"},
    "POST /api/admin/tenants/{tenant_id}/wallet/credits": lambda setup: {
        "amount": 5,
        "provider_transaction_id": _unique(),
    },
    "POST /api/admin/tenants/{tenant_id}/wallet/debits": lambda setup: {
        "amount": 1,
        "provider_transaction_id": _unique(),
        "reason": "chargeback",
    },
    "POST /api/admin/tenants/{tenant_id}/service-keys": lambda setup: {"name": "shop", "scopes": ["read"]},
    "POST /api/admin/tenants/{tenant_id}/budgets": lambda setup: {"name": _unique(), "period": "day", "limit": 1000},
    "PATCH /api/admin/tenants/{tenant_id}/budgets/{budget_id}": lambda setup: {"limit": 2000},
    "POST /api/admin/workflows": lambda setup: workflow(setup.names["asset_id"], slug=_unique()),
    "PATCH /api/admin/workflows/{workflow}": lambda setup: {"name": "Another name"},
    "POST /api/admin/effects": lambda setup: {
        "slug": _unique(),
        "name": "An effect",
        "workflow": setup.names["workflow"],
    },
    "PATCH /api/admin/effects/{effect}": lambda setup: {"credits_cost": 9},
    "PUT /api/admin/effects/{effect}/preview": lambda setup: {"after_asset_id": setup.names["picture_id"]},
    "POST /api/admin/workflows/{workflow}/test-runs": lambda setup: {
        "draft": {"graph": SAVED, "properties": [], "output_node_id": "9"}
    },
    "POST /api/admin/assets": lambda setup: {"name": "a.png", "mime_type": "image/png", "size": 5},
    "POST /api/admin/jobs": lambda setup: {
        "user_id": setup.names["user_id"],
        "workflow": setup.names["workflow"],
        "payload": {},
        "cost": 0,
    },
    "POST /api/admin/bulk-actions": lambda setup: {"action": "cancel", "filter": {"job_id": [str(uuid7())]}},
    "POST /api/admin/dispatches/{dispatch_id}/priority": lambda setup: {"priority": 7},
    "PUT /api/admin/concurrency-limits": lambda setup: {"identifier": _unique(), "max_concurrent": 3},
    "PUT /api/admin/workers/{worker_id}/workflows": lambda setup: {"workflow_slugs": [setup.names["workflow"]]},
    "POST /api/admin/fleets": lambda setup: {"slug": _unique()},
    "PATCH /api/admin/fleets/{fleet_id}": lambda setup: {"name": "Another name"},
    "PUT /api/admin/fleets/{fleet_id}/workflows": lambda setup: {"workflow_slugs": [setup.names["workflow"]]},
    "PATCH /api/admin/fleets/{fleet_id}/workflows": lambda setup: {"remove": [setup.names["workflow"]]},
    # On another machine, because this one would start agents for the jobs that wait, and they outlive the test.
    "PUT /api/admin/fleets/{fleet_id}/scaling": lambda setup: {
        "driver": "process",
        "maximum": 2,
        "options": {"host": "another-machine"},
    },
}
PREPARED: dict[str, Prepare] = {
    "DELETE /api/admin/users/{user_id}/sessions/{session_id}": _session,
    "POST /api/admin/workers/{worker_id}/undrain": _drained_worker,
    "DELETE /api/admin/fleets/{fleet_id}": _fleet_without_scaling,
    "POST /api/admin/users/{user_id}/enable": _disabled_user,
    "DELETE /api/admin/users/{user_id}": _disabled_user_without_jobs,
    "POST /api/admin/tenants/{tenant_id}/enable": _disabled_tenant,
    "POST /api/admin/tenants/{tenant_id}/wallet/debits": _tokens_of_the_tenant,
    "DELETE /api/admin/effects/{effect}": _effect_without_jobs,
    "PUT /api/admin/effects/{effect}/preview": _image_asset,
    "DELETE /api/admin/effects/{effect}/preview": _effect_with_a_preview,
    "DELETE /api/admin/workflows/{workflow}": _workflow_without_use,
    "POST /api/admin/assets/{asset_id}/confirm": _uploaded_asset,
    "DELETE /api/admin/assets/{asset_id}": _uploaded_asset,
    "POST /api/admin/tenants/{tenant_id}/jobs/{job_id}/retry": _failed_job,
    "POST /api/admin/jobs/{job_id}/retry": _failed_job,
    "POST /api/admin/dispatches/{dispatch_id}/priority": _queued_dispatch,
}
# The action of the line and its subject: the name in the URL path that identifies the subject, where there is one.
LINES: dict[str, tuple[str, str | None]] = {
    "POST /api/admin/tenants": ("tenant.create", None),
    "POST /api/admin/users": ("user.create", None),
    "PUT /api/admin/users/{user_id}/role": ("user.role", "user_id"),
    "POST /api/admin/users/{user_id}/password-reset": ("user.reset_password", "user_id"),
    "POST /api/admin/invitations": ("user.invite", None),
    "DELETE /api/admin/invitations/{invitation_id}": ("user.uninvite", "invitation_id"),
    "POST /api/admin/users/{user_id}/disable": ("user.disable", "user_id"),
    "POST /api/admin/users/{user_id}/enable": ("user.enable", "user_id"),
    "DELETE /api/admin/users/{user_id}": ("user.delete", "user_id"),
    "POST /api/admin/users/{user_id}/keys": ("key.create", "user_id"),
    "DELETE /api/admin/users/{user_id}/keys/{key_id}": ("key.revoke", "user_id"),
    "DELETE /api/admin/users/{user_id}/sessions": ("user.end_sessions", "user_id"),
    "DELETE /api/admin/users/{user_id}/sessions/{session_id}": ("user.end_sessions", "user_id"),
    "PATCH /api/admin/tenants/{tenant_id}/quotas": ("tenant.quotas", "tenant_id"),
    "PATCH /api/admin/tenants/{tenant_id}/share": ("tenant.share", "tenant_id"),
    "POST /api/admin/tenants/{tenant_id}/disable": ("tenant.disable", "tenant_id"),
    "POST /api/admin/tenants/{tenant_id}/enable": ("tenant.enable", "tenant_id"),
    "POST /api/admin/users/{user_id}/credits": ("wallet.credit", "user_id"),
    "POST /api/admin/users/{user_id}/debits": ("wallet.debit", "user_id"),
    "PATCH /api/admin/tenants/{tenant_id}/wallet": ("tenant.wallet", "tenant_id"),
    "POST /api/admin/tenants/{tenant_id}/wallet/credits": ("wallet.credit", "tenant_id"),
    "POST /api/admin/tenants/{tenant_id}/wallet/debits": ("wallet.debit", "tenant_id"),
    "POST /api/admin/tenants/{tenant_id}/service-keys": ("service_key.create", "tenant_id"),
    "DELETE /api/admin/tenants/{tenant_id}/service-keys/{service_key_id}": ("service_key.revoke", "tenant_id"),
    "POST /api/admin/tenants/{tenant_id}/budgets": ("budget.create", None),
    "PATCH /api/admin/tenants/{tenant_id}/budgets/{budget_id}": ("budget.change", "budget_id"),
    "DELETE /api/admin/tenants/{tenant_id}/budgets/{budget_id}": ("budget.delete", "budget_id"),
    "POST /api/admin/ledger-audits": ("wallet.audit", None),
    "POST /api/admin/workflows": ("workflow.create", None),
    "PATCH /api/admin/workflows/{workflow}": ("workflow.update", "workflow"),
    "DELETE /api/admin/workflows/{workflow}": ("workflow.delete", "workflow"),
    "POST /api/admin/workflows/{workflow}/activate": ("workflow.update", "workflow"),
    "POST /api/admin/workflows/{workflow}/deactivate": ("workflow.update", "workflow"),
    "POST /api/admin/workflows/{workflow}/test-runs": ("workflow.test", "workflow"),
    "POST /api/admin/effects": ("effect.create", None),
    "PATCH /api/admin/effects/{effect}": ("effect.update", "effect"),
    "DELETE /api/admin/effects/{effect}": ("effect.delete", "effect"),
    "PUT /api/admin/effects/{effect}/preview": ("effect.preview", "effect"),
    "DELETE /api/admin/effects/{effect}/preview": ("effect.preview", "effect"),
    "POST /api/admin/assets": ("asset.create", None),
    "POST /api/admin/assets/{asset_id}/confirm": ("asset.confirm", "asset_id"),
    "DELETE /api/admin/assets/{asset_id}": ("asset.delete", "asset_id"),
    "POST /api/admin/jobs": ("job.submit", None),
    "POST /api/admin/tenants/{tenant_id}/jobs/{job_id}/cancel": ("job.cancel", "job_id"),
    "POST /api/admin/tenants/{tenant_id}/jobs/{job_id}/retry": ("job.retry", "job_id"),
    "POST /api/admin/jobs/{job_id}/cancel": ("job.cancel", "job_id"),
    "POST /api/admin/jobs/{job_id}/retry": ("job.retry", "job_id"),
    "POST /api/admin/bulk-actions": ("bulk_action.start", None),
    "POST /api/admin/bulk-actions/{bulk_action_id}/stop": ("bulk_action.stop", "bulk_action_id"),
    "POST /api/admin/dispatches/{dispatch_id}/requeue": ("dispatch.requeue", "dispatch_id"),
    "POST /api/admin/dispatches/{dispatch_id}/cancel": ("dispatch.cancel", "dispatch_id"),
    "POST /api/admin/dispatches/{dispatch_id}/priority": ("dispatch.priority", "dispatch_id"),
    "PUT /api/admin/concurrency-limits": ("concurrency_limit.set", None),
    "POST /api/admin/workers/{worker_id}/approve": ("worker.approve", "worker_id"),
    "POST /api/admin/workers/{worker_id}/revoke": ("worker.revoke", "worker_id"),
    "POST /api/admin/workers/{worker_id}/drain": ("worker.drain", "worker_id"),
    "POST /api/admin/workers/{worker_id}/undrain": ("worker.undrain", "worker_id"),
    "POST /api/admin/workers/{worker_id}/rotate-token": ("worker.rotate_token", "worker_id"),
    "PUT /api/admin/workers/{worker_id}/workflows": ("worker.assign_workflows", "worker_id"),
    "POST /api/admin/fleets": ("fleet.create", None),
    "PATCH /api/admin/fleets/{fleet_id}": ("fleet.update", "fleet_id"),
    "DELETE /api/admin/fleets/{fleet_id}": ("fleet.delete", "fleet_id"),
    "PUT /api/admin/fleets/{fleet_id}/workflows": ("fleet.set_workflows", "fleet_id"),
    "PATCH /api/admin/fleets/{fleet_id}/workflows": ("fleet.change_workflows", "fleet_id"),
    "PUT /api/admin/fleets/{fleet_id}/scaling": ("fleet.scale", "fleet_id"),
    "DELETE /api/admin/fleets/{fleet_id}/scaling": ("fleet.stop_scaling", "fleet_id"),
    "POST /api/admin/fleets/{fleet_id}/tokens": ("fleet.create_token", "fleet_id"),
    "POST /api/admin/fleets/{fleet_id}/tokens/{fleet_token_id}/rotate": ("fleet.rotate_token", "fleet_id"),
    "POST /api/admin/fleets/{fleet_id}/tokens/{fleet_token_id}/revoke": ("fleet.revoke_token", "fleet_id"),
    "POST /api/admin/providers/{provider}/reset": ("provider.reset", "provider"),
    "POST /api/admin/alerts/test": ("alert.test", None),
    "POST /api/admin/mails/{mail_id}/send": ("mail.send", "mail_id"),
}


async def test_every_change_an_admin_can_make_is_covered(client: httpx.AsyncClient) -> None:
    paths = (await client.get("/openapi.json")).json()["paths"]
    changes = {
        f"{method.upper()} {path}"
        for path, methods in paths.items()
        for method in methods
        if path.startswith("/api/admin/") and method not in ("get", "head", "options")
    } - {"POST /api/admin/workflows/proposals"}  # It stores nothing.
    assert changes == LINES.keys(), "say in LINES which line of the audit log each of these leaves"


@pytest.fixture(scope="module")
async def shared(api_plane: ControlPlane) -> AsyncIterator[AuthorizationSetup]:
    """For changes that do not disturb each other: a setup takes 25 requests."""
    async with httpx.AsyncClient(base_url=api_plane.settings.public_url, trust_env=False, timeout=30) as client:
        yield await AuthorizationSetup.open(api_plane, client)


def _ends_something(operation: str) -> bool:
    """What deletes, disables or ends something; not what creates or renames."""
    return "{" in operation and not operation.startswith(("PATCH", "PUT"))


@pytest.mark.few_forms
@pytest.mark.parametrize("operation", sorted(LINES))
async def test_the_audit_log_names_the_admin_who_made_each_change(
    shared: AuthorizationSetup, plane: ControlPlane, client: httpx.AsyncClient, people: People, operation: str
) -> None:
    setup = await AuthorizationSetup.open(plane, client) if _ends_something(operation) else shared
    catalog_api = await CatalogApi.open(plane, client, people)
    setup.names.update(await PREPARED.get(operation, _nothing)(setup, catalog_api))
    if "bulk_action_id" in operation:
        setup.names.update(await _running_bulk_action(plane))
    body = dict(BODIES.get(operation, lambda setup: {})(setup))
    actor = f"admin:{(await setup.ask('operator', 'GET /api/me')).json()['user_id']}"
    before = await _lines(client, setup, actor)

    response = await setup.ask("operator", operation, body)
    assert response.is_success, response.text

    [line] = [line for line in await _lines(client, setup, actor) if line not in before]
    action, subject = LINES[operation]
    assert line["action"] == action
    if subject is not None:
        assert line["subject_id"] == setup.names[subject]
    assert PASSWORD not in str(line)


async def _lines(client: httpx.AsyncClient, setup: AuthorizationSetup, actor: str) -> list[dict[str, Any]]:
    response = await client.get(
        "/api/admin/audit-logs", params={"actor": actor, "limit": 200}, headers=setup.headers["operator"]
    )
    lines: list[dict[str, Any]] = response.json()["items"]
    return lines
