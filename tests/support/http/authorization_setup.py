"""One caller of each kind, and one resource of each kind, for tests of permissions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx

from callsheet.app.control_plane import ControlPlane
from callsheet.jobs.submit.new_jobs import NewTask
from callsheet.wire.identity import CreateKeyRequest, KeyScope, Role
from callsheet.wire.pipelines.candidates import CastVote
from callsheet.wire.tasks import task_id_of
from callsheet.wire.tenant.service_keys import CreateServiceKey, ServiceScope
from tests.support.http.accounts import PASSWORD, People, Person, session_of
from tests.support.http.catalog_api import MP4, CatalogApi
from tests.support.http.fleet_api import FleetApi, forget_revocations
from tests.support.http.jobs_api import JobsApi
from tests.support.jobs.core import Core, Member
from tests.support.media.media_harness import principal_of
from tests.support.pipelines.candidate_trees import Tree

# Created in another database, so that nothing is started for it.
SCALED = """INSERT INTO fleet_scaling (
        fleet_id, driver, providers, minimum, maximum, target_seconds, warm_up_seconds, scale_out_cooldown_seconds,
        scale_in_cooldown_seconds, idle_seconds, on_demand_minimum, spot_share, installation_id, central_system,
        central_database, updated_by)
    VALUES ($1, 'command', '{self_hosted}', 0, 1, 120, 180, 30, 300, 300, 0, 1, gen_random_uuid(), 1, 1, 'operator')"""


# The audit has ended, so that another one can be started.
AUDITED = "INSERT INTO ledger_audits (requested_by, finished_at) VALUES ('operator', now()) RETURNING id"


@dataclass(frozen=True, slots=True)
class AuthorizationSetup:
    client: httpx.AsyncClient
    # The headers of each caller.
    headers: dict[str, dict[str, str]]
    # The value of each name in a URL path.
    names: dict[str, str]
    # The fields of the lease that the worker holds.
    lease: dict[str, Any]
    # Values of the owner that no other user may ever read.
    hidden: tuple[str, ...]
    # Credentials: no list and no view may show them, not even to an operator.
    secrets: tuple[str, ...]

    @classmethod
    async def open(cls, plane: ControlPlane, client: httpx.AsyncClient) -> AuthorizationSetup:
        people = People(plane.rooms.identity.accounts, plane.rooms.identity.keys)
        jobs_api = await JobsApi.open(plane, client, people)
        catalog_api = await CatalogApi.open(plane, client, people)
        fleet_api = FleetApi(plane, jobs_api)
        owner = await catalog_api.person("pool_1")
        effect = await catalog_api.effect()
        slug = effect["workflow"]
        worker, other = [await fleet_api.agent(workflow_slugs=[slug]) for _ in range(2)]
        video_id = await catalog_api.video(owner)
        job = await catalog_api.submit(owner, effect, video_id=video_id)
        lease = (await client.post("/api/worker/poll", json={}, headers=worker.headers)).json()["job"]
        fleet = await catalog_api.made("/api/admin/fleets", {"slug": slug, "stage": "production", "name": "A fleet"})
        await fleet_api.rows(SCALED, fleet["id"])
        tokens = f"/api/admin/fleets/{fleet['id']}/tokens"
        fleet_token, dead_token = [await catalog_api.made(tokens, {"name": "machines"}) for _ in range(2)]
        assert (await fleet_api.admin("POST", f"fleets/{fleet['id']}/tokens/{dead_token['id']}/revoke")).is_success
        key = await plane.rooms.identity.keys.create(owner.user.id, CreateKeyRequest(name="second"))
        wanted = CreateServiceKey(name="shop", scopes=[ServiceScope.READ])
        service_keys = plane.rooms.identity.service_keys
        service_key = await service_keys.create(owner.tenant.id, wanted, "operator", may_credit=False)
        spare = await _uploaded(catalog_api, owner)
        task_id, product_id = await _task_and_product(plane, owner)
        made = await _tree(plane, owner)
        endpoint_names, endpoint_secret = await _endpoint(catalog_api, owner)
        wanted = {"name": "A day", "period": "day", "limit": 1_000_000}
        budget = await catalog_api.made(f"/api/admin/tenants/{owner.tenant.id}/budgets", wanted)
        invited = {"tenant": owner.tenant.slug, "email": f"invited-{lease['dispatch_id']}@example.com"}
        invitation = await catalog_api.made("/api/admin/invitations", invited)
        bulk = {"action": "cancel", "filter": {"job_id": ["01900000-0000-7000-8000-000000000000"]}}
        bulk_action = await catalog_api.made("/api/admin/bulk-actions", bulk)
        tenant_admin = await people.user(owner.tenant, Role.TENANT_ADMIN)
        [audit] = await fleet_api.rows(AUDITED)
        gone = await fleet_api.agent(workflow_slugs=[slug])
        assert (await fleet_api.admin("POST", f"workers/{gone.worker_id}/revoke")).is_success
        await forget_revocations(plane)
        return cls(
            client,
            {
                "nobody": {},
                "revoked key": {"authorization": f"Bearer {await _revoked_key(plane, owner)}"},
                "expired key": await _expired_key(plane, owner),
                "owner's session": await session_of(client, owner),
                "owner's read key": await _scoped_key(plane, owner, KeyScope.READ),
                "owner's submit key": await _scoped_key(plane, owner, KeyScope.SUBMIT),
                "tenant admin's own key": await _scoped_key(plane, tenant_admin, KeyScope.READ, KeyScope.SUBMIT),
                "operator's own key": await _scoped_key(plane, catalog_api.admin, KeyScope.READ, KeyScope.SUBMIT),
                "operator's admin key": await _scoped_key(plane, catalog_api.admin, KeyScope.ADMIN),
                "service key": await _service_key(plane, owner, owner),
                "service read key": await _service_key(plane, owner, owner, ServiceScope.READ),
                "service key for no user": await _service_key(plane, owner),
                "service key of another tenant": await _service_key(plane, await people.user(), owner),
                "stranger": (await catalog_api.person("pool_2")).headers,
                "colleague": (await catalog_api.person(tenant_of=owner)).headers,
                "owner": owner.headers,
                "operator": catalog_api.admin.headers,
                "viewer": (await people.user(role=Role.VIEWER)).headers,
                "tenant admin": tenant_admin.headers,
                "tenant admin of another tenant": (await people.user(role=Role.TENANT_ADMIN)).headers,
                "disabled user": (await _disabled(plane, await people.user(owner.tenant), "users")).headers,
                "user of a disabled tenant": (await _disabled(plane, await people.user(), "tenants")).headers,
                "worker": worker.headers,
                "other worker": other.headers,
                "revoked worker": gone.headers,
                "fleet secret": fleet_api.secret,
                "fleet token": {"x-fleet-secret": fleet_token["token"]},
                "revoked fleet token": {"x-fleet-secret": dead_token["token"]},
                # Valid credentials of another kind.
                "secret as a token": {"authorization": f"Bearer {fleet_api.secret['x-fleet-secret']}"},
                "key as the secret": {"x-fleet-secret": catalog_api.admin.key},
                "token as the secret": {"x-fleet-secret": worker.token},
            },
            {
                "job_id": job["id"],
                "task_id": task_id,
                "batch_id": await _batch(catalog_api, owner),
                "product_id": product_id,
                "video_id": video_id,
                "file_id": spare,
                "key_id": str(key.id),
                "service_key_id": str(service_key.id),
                "effect": effect["id"],
                "workflow": slug,
                "version": "1",
                "asset_id": catalog_api.asset,
                "worker_id": worker.worker_id,
                "fleet_id": str(fleet["id"]),
                "fleet_token_id": str(fleet_token["id"]),
                "dispatch_id": str(lease["dispatch_id"]),
                "user_id": str(owner.user.id),
                "tenant_id": str(owner.tenant.id),
                "tenant": owner.tenant.slug,
                "invitation_id": invitation["id"],
                "bulk_action_id": bulk_action["id"],
                "mail_id": await _waiting_mail(plane),
                "fingerprint": "0123456789abcdef",
                "token": "csl_" + "A" * 43,
                "key": "tenants/nobody/has/this.mp4",
                "provider": "replicate",
                "callback_id": "A" * 43,
                "share_id": "01900000-0000-7000-8000-000000000000",
                "name": "after",
                "session_id": "01900000-0000-7000-8000-000000000000",
                "audit_id": str(audit["id"]),
                **endpoint_names,
                "budget_id": budget["id"],
                **made,
            },
            {"dispatch_id": lease["dispatch_id"], "lease_token": lease["lease_token"]},
            (
                *(job["id"], task_id, product_id, video_id, spare, str(key.id), lease["lease_token"], owner.user.email),
                invitation["email"],
                *(
                    made["pipeline"],
                    made["run_id"],
                    made["candidate_id"],
                    made["vote_id"],
                    endpoint_names["endpoint_id"],
                ),
            ),
            (
                *(
                    lease["lease_token"],
                    owner.key,
                    service_key.key,
                    catalog_api.admin.key,
                    worker.token,
                    fleet_token["token"],
                ),
                *(endpoint_secret, fleet_api.secret["x-fleet-secret"], PASSWORD, invitation["link"].rpartition("/")[2]),
            ),
        )

    async def ask(self, caller: str, operation: str, body: Any = None, **query: str) -> httpx.Response:
        method, _, path = operation.partition(" ")
        for name, value in self.names.items():
            path = path.replace(f"{{{name}}}", value)
        assert "{" not in path, f"no value for {path}"
        content = {"json": {} if body is None else body} if method in ("POST", "PUT", "PATCH") else {}
        request = self.client.build_request(method, path, headers=self.headers[caller], params=query, **content)
        # A granted stream would never end, so only its headers are read.
        response = await self.client.send(request, stream=True)
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            await response.aread()
        await response.aclose()
        return response


async def _waiting_mail(plane: ControlPlane) -> str:
    """A mail that stays unsent, because no mail server is configured."""
    async with plane.databases.central.connection() as connection:
        query = "INSERT INTO mails (reset_email) VALUES ($1) RETURNING id"
        return str(await connection.fetchval(query, f"{uuid4().hex}@example.com"))


async def _task_and_product(plane: ControlPlane, owner: Person) -> tuple[str, str]:
    """A waiting task, and a product of a scrape. Both are written directly, so that they do not depend on actors."""
    core = Core(plane.databases, plane.rooms.jobs, [])
    core.workflow = await core.add_workflow()
    pool = await plane.databases.pool(owner.tenant.pool)
    member = Member(owner.tenant.id, owner.user.id, pool)
    task = await core.submit(member, kind="task", cost=0, task=NewTask("echo"))
    async with pool.connection() as connection:
        await connection.execute(
            "INSERT INTO products (tenant_id, id, user_id, url, title) VALUES ($1, $2, $3, 'https://a.co', 'Lamp')",
            owner.tenant.id,
            task.id,
            owner.user.id,
        )
    return task_id_of(task.id), str(task.id)


async def _tree(plane: ControlPlane, owner: Person) -> dict[str, str]:
    """A run with three candidates, two of which were compared, and a step that waits for approval."""
    core = Core(plane.databases, plane.rooms.jobs, [])
    pool = await plane.databases.pool(owner.tenant.pool)
    member = Member(owner.tenant.id, owner.user.id, pool)
    tree = await Tree.plant(core, member, status="paused", requires_approval=True)
    candidate, rival, third = [await tree.candidate() for _ in range(3)]
    votes = plane.rooms.pipelines.guidance.votes
    vote, _ = await votes.vote(principal_of(member), tree.run_id, CastVote(winner_id=candidate, loser_id=third))
    return {
        "pipeline": str((await tree.run())["pipeline_id"]),
        "run_id": str(tree.run_id),
        "candidate_id": str(candidate),
        "rival_id": str(rival),
        "vote_id": str(vote.id),
        "step": "base",
    }


async def _batch(catalog_api: CatalogApi, person: Person) -> str:
    """A batch whose item waits: no worker runs its workflow."""
    effect, file_id = await catalog_api.effect(), await catalog_api.file(person)
    wanted = {"effect_id": effect["id"], "input_payload": {"prompt": "a cat"}, "items": [{"input_file_id": file_id}]}
    return str((await catalog_api.made("/api/batches", wanted, person=person))["id"])


async def _endpoint(catalog_api: CatalogApi, person: Person) -> tuple[dict[str, str], str]:
    """A webhook endpoint with a delivery, which is switched off, so that nothing is sent."""
    wanted = {"url": "https://shop.example.com/hook", "description": "Orders"}
    created = await catalog_api.made("/api/webhook-endpoints", wanted, person=person)
    url = f"/api/webhook-endpoints/{created['id']}"
    test = await catalog_api.client.post(f"{url}/test", headers=person.headers)
    changed = await catalog_api.client.patch(url, json={"enabled": False}, headers=person.headers)
    assert changed.is_success, changed.text
    return {"endpoint_id": created["id"], "delivery_id": str(test.json()["id"])}, created["secret"]


async def _uploaded(catalog_api: CatalogApi, person: Person) -> str:
    """An uploaded file that waits for confirmation."""
    declared = {"name": "spare.mp4", "mime_type": "video/mp4", "size": len(MP4)}
    created = await catalog_api.made("/api/videos/uploads", declared, person=person)
    await catalog_api.put(created["upload"], MP4)
    return str(created["file"]["id"])


async def _disabled(plane: ControlPlane, person: Person, table: str) -> Person:
    async with plane.databases.central.connection() as connection:
        row_id = person.user.id if table == "users" else person.tenant.id
        await connection.execute(f"UPDATE {table} SET disabled_at = clock_timestamp() WHERE id = $1", row_id)
    return person


async def _scoped_key(plane: ControlPlane, person: Person, *scopes: KeyScope) -> dict[str, str]:
    created = await plane.rooms.identity.keys.create(
        person.user.id, CreateKeyRequest(name="scoped", scopes=list(scopes))
    )
    return {"authorization": f"Bearer {created.key}"}


async def _service_key(
    plane: ControlPlane, of: Person, for_user: Person | None = None, *scopes: ServiceScope
) -> dict[str, str]:
    """The headers of a service key of the tenant of `of`."""
    wanted = CreateServiceKey(name="shop", scopes=list(scopes or ServiceScope))
    keys = plane.rooms.identity.service_keys
    created = await keys.create(of.tenant.id, wanted, "operator", may_credit=True)
    named = {} if for_user is None else {"callsheet-on-behalf-of": f"user:{for_user.user.id}"}
    return {"authorization": f"Bearer {created.key}", **named}


async def _expired_key(plane: ControlPlane, person: Person) -> dict[str, str]:
    created = await plane.rooms.identity.keys.create(person.user.id, CreateKeyRequest(name="expired"))
    async with plane.databases.central.connection() as connection:
        await connection.execute("UPDATE api_keys SET expires_at = clock_timestamp() WHERE id = $1", created.id)
    return {"authorization": f"Bearer {created.key}"}


async def _revoked_key(plane: ControlPlane, person: Person) -> str:
    created = await plane.rooms.identity.keys.create(person.user.id, CreateKeyRequest(name="revoked"))
    await plane.rooms.identity.keys.revoke(person.user.id, created.id)
    return created.key
