"""Workers for tests: agents that registered over HTTP, and a registry without HTTP.

fleet_api = FleetApi(plane, jobs_api)                      # `jobs_api` is a JobsApi
agent = await fleet_api.agent(max_concurrency=2)           # registered for the workflow of `jobs_api`
fleet = await fleet_api.fleet()                            # an admin creates it
await fleet_api.silent_for(agent, 100)                     # as if it had sent nothing for that long

room = registry(databases, core.room.leases)        # without HTTP
await join(room, "gpu-1", "face-swap")
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import httpx

from callsheet.app.control_plane import ControlPlane
from callsheet.fleet.registry.credentials import Credential, SecretCredential, fleet_secret
from callsheet.fleet.registry.held_leases import ExpiredLeases
from callsheet.fleet.room import FleetRoom, open_fleet
from callsheet.jobs.lease.leases import Leases
from callsheet.jobs.lease.restarts import Restarts
from callsheet.jobs.repair.reap import Reaper
from callsheet.jobs.room import JobsRoom
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.installation.secrets import master_secret
from callsheet.settings import FleetSettings
from callsheet.wire.errors import NotAuthenticated
from callsheet.wire.fleet import RegisterRequest, RegisterResponse
from tests.support.http.jobs_api import JobsApi
from tests.support.jobs.core import Core

SECRET = b"a secret of the tests, long enough to be one"
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Agent:
    worker_id: str
    token: str

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.token}"}


@dataclass(frozen=True, slots=True)
class FleetApi:
    """Agents of a running control plane, and an admin who manages them."""

    plane: ControlPlane
    jobs_api: JobsApi

    @property
    def client(self) -> httpx.AsyncClient:
        return self.jobs_api.client

    @property
    def secret(self) -> dict[str, str]:
        return {"x-fleet-secret": fleet_secret(self.plane.settings.fleet, master_secret(self.plane.settings))}

    async def register(self, worker_id: str | None = None, **body: Any) -> httpx.Response:
        """Into the workflow of the jobs API, unless the body names a fleet or workflows."""
        place = {} if {"fleet_slug", "workflow_slugs"} & body.keys() else {"workflow_slugs": [self.jobs_api.workflow]}
        worker_id = worker_id or f"worker-{next(_numbers)}"
        await forget_revocations(self.plane)
        return await self.client.post(
            "/api/worker/register", json={"worker_id": worker_id, **place, **body}, headers=self.secret
        )

    async def agent(self, worker_id: str | None = None, **body: Any) -> Agent:
        response = await self.register(worker_id, **body)
        assert response.status_code == 201, response.text
        return Agent(response.json()["worker_id"], response.json()["token"])

    async def fleet(self, *workflow_slugs: str, **body: Any) -> dict[str, Any]:
        """A new fleet with these workflows, or with that of the jobs API."""
        slugs = list(workflow_slugs) or [self.jobs_api.workflow]
        request = {"slug": f"fleet-{next(_numbers)}", "workflow_slugs": slugs, **body}
        response = await self.admin("POST", "fleets", request)
        assert response.status_code == 201, response.text
        fleet: dict[str, Any] = response.json()
        return fleet

    async def admin(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> httpx.Response:
        return await self.client.request(
            method, f"/api/admin/{path}", json=body, headers=self.jobs_api.admin.headers, follow_redirects=False
        )

    async def done(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The response to an admin's request, which must succeed."""
        response = await self.admin(method, path, body)
        assert response.status_code == 200, response.text
        found: dict[str, Any] = response.json()
        return found

    async def silent_for(self, agent: Agent, seconds: float) -> None:
        """Simulates that the worker sent no request for this time."""
        presence = self.plane.rooms.fleet.authentication.presence
        # Pending writes must reach the database first.
        await presence.stop()
        await self.rows(
            """UPDATE comfyui_workers SET last_seen_at = clock_timestamp() - make_interval(secs => $2)
               WHERE worker_id = $1""",
            agent.worker_id,
            seconds,
        )
        presence.start()

    async def is_known(self, agent: Agent) -> bool:
        """Whether the control plane accepts the token of the worker."""
        try:
            principal = await self.plane.rooms.fleet.authentication.of(bearer(agent.token))
        except NotAuthenticated:
            return False
        return principal.worker_id == agent.worker_id

    async def events(self, agent: Agent) -> list[str]:
        """The worker's log in short, oldest first."""
        rows = await self.rows("SELECT event FROM worker_audit_logs WHERE worker_id = $1 ORDER BY id", agent.worker_id)
        return [row["event"] for row in rows]

    async def rows(self, query: str, *values: object) -> list[Mapping[str, Any]]:
        return await self.jobs_api.core.rows(self.plane.databases.central, query, *values)


def registry(databases: Databases, leases: Leases, **settings: Any) -> FleetRoom:
    """A registry over these databases; open several for several control planes."""
    return open_fleet(databases, FleetSettings(**settings), SECRET, leases)


def recording_reaped(core: Core) -> JobsRoom:
    """The room of jobs of `core`, with a reaper that records expired leases in the workers' logs."""
    restarts = Restarts(core.room.dispatch.repair, core.room.transitions)
    reaper = Reaper(core.queue, core.room.transitions, restarts, ExpiredLeases(core.databases).record)
    return replace(core.room, reaper=reaper)


async def forget_revocations(plane: ControlPlane) -> None:
    """Simulates that the shared secret was changed after a test revoked a worker. Otherwise all workers with the
    secret would wait.
    """
    async with plane.databases.central.connection() as connection:
        await connection.execute("UPDATE comfyui_workers SET secret_fingerprint = NULL WHERE revoked_at IS NOT NULL")


# The secret of this machine, sent from this machine.
LOCAL = SecretCredential((b"1" * 32,), is_local=True)
# The same from another one.
REMOTE = SecretCredential((b"1" * 32,), is_local=False)


async def join(
    room: FleetRoom, worker_id: str, *workflow_slugs: str, credential: Credential = LOCAL, **changes: Any
) -> RegisterResponse:
    request = RegisterRequest(worker_id=worker_id, workflow_slugs=list(workflow_slugs) or None, **changes)
    return await room.registry.register(request, credential)


def bearer(token: str) -> str:
    return f"Bearer {token}"
