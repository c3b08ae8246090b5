"""Jobs over HTTP for tests: an admin submits them, users watch them, and `core` does the rest.

jobs_api = await JobsApi.open(plane, client, people)       # a workflow of its own, `jobs_api.workflow`
ann = await jobs_api.person(tokens=100)
job = await jobs_api.submit(ann, cost=7)
await jobs_api.core.complete(await jobs_api.start())       # lease and complete without a worker
assert (await jobs_api.get(ann, f"/api/ai-jobs/{job['id']}")).json()["status"] == "completed"
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from typing import Any

import httpx

from callsheet.app.control_plane import ControlPlane
from callsheet.jobs.lease.outcomes import StartedLease
from tests.support.http.accounts import People, Person
from tests.support.jobs.core import Core

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class JobsApi:
    client: httpx.AsyncClient
    people: People
    admin: Person
    # The room of the running control plane. No other test uses its workflow.
    core: Core
    workflow: str

    @classmethod
    async def open(cls, plane: ControlPlane, client: httpx.AsyncClient, people: People) -> JobsApi:
        core = Core(plane.databases, plane.rooms.jobs, [])
        slug = f"jobs-api-{next(_numbers)}"
        core.workflow = await core.add_workflow(slug)
        return cls(client, people, await people.admin(), core, slug)

    async def person(self, pool: str = "pool_1", tokens: int = 0, *, tenant_of: Person | None = None) -> Person:
        person = await self.people.user(tenant_of.tenant if tenant_of else None, pool=pool)
        if tokens:
            await self.credit(person, tokens)
        return person

    async def credit(self, person: Person, amount: int) -> None:
        body = {"amount": amount, "provider_transaction_id": f"credit-{next(_numbers)}"}
        response = await self.post(f"/api/admin/users/{person.user.id}/credits", body)
        assert response.status_code == 200, response.text

    async def full_error(self, person: Person, job_id: str) -> dict[str, Any]:
        """The error of a job as operators see it."""
        response = await self.get(self.admin, f"/api/admin/tenants/{person.tenant.id}/jobs/{job_id}")
        assert response.status_code == 200, response.text
        error: dict[str, Any] = response.json()["full_error"]
        return error

    def request(self, person: Person, **changes: Any) -> dict[str, Any]:
        request = {
            "user_id": str(person.user.id),
            "workflow": self.workflow,
            "payload": {"prompt": "a cat"},
            "cost": 10,
        }
        return {**request, **changes}

    async def submit(self, person: Person, **changes: Any) -> dict[str, Any]:
        response = await self.post("/api/admin/jobs", self.request(person, **changes))
        assert response.status_code == 201, response.text
        job: dict[str, Any] = response.json()
        return job

    async def start(self) -> StartedLease:
        return await self.core.start("worker-1")

    async def get(self, person: Person, path: str) -> httpx.Response:
        return await self.client.get(path, headers=person.headers)

    async def post(self, path: str, body: dict[str, Any]) -> httpx.Response:
        """Sends a request as the admin. httpx's own encoder is not used, because it refuses values that a bad client
        may send.
        """
        headers = self.admin.headers | {"content-type": "application/json"}
        return await self.client.post(path, content=json.dumps(body), headers=headers)

    async def post_as(self, person: Person, path: str) -> httpx.Response:
        return await self.client.post(path, headers=person.headers)
