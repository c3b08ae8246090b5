"""A running control plane for scripted workers, with jobs whose inputs are in storage.

ann = await worker_harness.jobs_api.person(tokens=100)     # the fixture `worker_harness`
await worker_harness.engine_job(ann)                       # a graph and an input, as the catalog builds them
worker = await worker_harness.worker()                     # a ScriptedWorker, registered
job = await worker.job()                                   # poll
await worker.deliver(job, OUTPUT)                          # upload
await worker.complete(job, output=described(OUTPUT, "video/mp4"))
await worker_harness.audited(worker, "registered", "leased", "completed")
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from uuid import UUID

import httpx

from callsheet.app.control_plane import ControlPlane
from callsheet.fleet.registry.credentials import fleet_secret
from callsheet.plumbing.installation.secrets import master_secret
from tests.support.http.accounts import People, Person
from tests.support.http.fleet_api import forget_revocations
from tests.support.http.jobs_api import JobsApi
from tests.support.http.scripted_worker import ScriptedWorker
from tests.support.jobs.core import Row
from tests.support.waiting import until

_numbers = itertools.count(1)
INPUT = b"\x00\x00\x00\x18ftypmp42 what the user uploaded"
OUTPUT = b"\x00\x00\x00\x18ftypmp42 what the engine made of it"
PNG = b"\x89PNG\r\n\x1a\n and so on"


@dataclass(slots=True)
class WorkerHarness:
    plane: ControlPlane
    client: httpx.AsyncClient
    jobs_api: JobsApi
    workers: list[ScriptedWorker] = field(default_factory=list)

    @property
    def secret(self) -> str:
        return fleet_secret(self.plane.settings.fleet, master_secret(self.plane.settings))

    async def worker(self, **fields: Any) -> ScriptedWorker:
        """A worker that is registered for the harness's own workflow. Jobs of other tests do not use that workflow."""
        worker = ScriptedWorker(self.client, f"scripted-{next(_numbers)}")
        await forget_revocations(self.plane)
        await worker.register(self.secret, **{"workflow_slugs": [self.jobs_api.workflow], **fields})
        self.workers.append(worker)
        return worker

    async def engine_job(self, person: Person, **payload: Any) -> dict[str, Any]:
        """A job as the catalog builds it, with an input in storage."""
        path = f"tenants/{person.tenant.id}/uploads/{next(_numbers)}/clip.mp4"
        await self.plane.rooms.storage.put(path, INPUT, content_type="video/mp4")
        return await self.jobs_api.submit(person, payload={**engine_payload(path), **payload}, cost=7)

    async def row(self, person: Person, job_id: str) -> Row:
        pool = await self.plane.databases.pool(person.tenant.pool)
        query = "SELECT * FROM ai_jobs WHERE tenant_id = $1 AND id = $2"
        return (await self.jobs_api.core.rows(pool, query, person.tenant.id, UUID(job_id)))[0]

    async def files(self, person: Person, job_id: str) -> list[Row]:
        pool = await self.plane.databases.pool(person.tenant.pool)
        query = "SELECT * FROM files WHERE tenant_id = $1 AND job_id = $2 ORDER BY id"
        return await self.jobs_api.core.rows(pool, query, person.tenant.id, UUID(job_id))

    async def shown(self, person: Person, job_id: str) -> dict[str, Any]:
        """The job as its user sees it."""
        response = await self.jobs_api.get(person, f"/api/ai-jobs/{job_id}")
        assert response.status_code == 200, response.text
        job: dict[str, Any] = response.json()
        return job

    async def balance(self, person: Person) -> int:
        return int((await self.jobs_api.get(person, "/api/wallet")).json()["balance"])

    async def dispatch(self, job: dict[str, Any]) -> Row:
        query = "SELECT * FROM ai_job_dispatches WHERE dispatch_id = $1"
        return (await self.jobs_api.core.rows(self.plane.databases.central, query, job["dispatch_id"]))[0]

    async def central(self, query: str, *values: object) -> list[Row]:
        return await self.jobs_api.core.rows(self.plane.databases.central, query, *values)

    async def audited(self, worker: ScriptedWorker, *expected: str) -> None:
        """Waits until the worker's audit log has these events, in this order. They are written after the responses."""
        query = "SELECT event FROM worker_audit_logs WHERE worker_id = $1 ORDER BY id"

        async def are_there() -> bool:
            return tuple(row["event"] for row in await self.central(query, worker.worker_id)) == expected

        await until(are_there)

    async def session(self, worker: ScriptedWorker, **expected: int) -> Row:
        """Waits until the worker's session has these counts. Returns the session."""
        query = "SELECT * FROM worker_sessions WHERE worker_id = $1 ORDER BY id DESC LIMIT 1"
        found: list[Row] = []

        async def has_counted() -> bool:
            found[:] = await self.central(query, worker.worker_id)
            return all(found[0][name] == value for name, value in expected.items())

        await until(has_counted)
        return found[0]


def engine_payload(path: str) -> dict[str, Any]:
    return {
        "workflow": {
            "3": {"class_type": "LoadVideo", "inputs": {"video": "__INPUT_PATH__"}},
            "9": {"class_type": "SaveVideo", "inputs": {"images": ["3", 0]}},
        },
        "assets": [
            {
                "key": "video",
                "placeholder": "__INPUT_PATH__",
                "path": path,
                "content_hash": sha256(INPUT).hexdigest(),
                "type": "video",
                "is_primary_input": True,
            }
        ],
        "output_node_id": "9",
        "output_extension": "mp4",
        "output_mime_type": "video/mp4",
        "input_path_placeholder": "__INPUT_PATH__",
        "input_name": "clip.mp4",
        "input_mime_type": "video/mp4",
        "extra_data": {},
    }


@asynccontextmanager
async def open_worker_harness(plane: ControlPlane) -> AsyncIterator[WorkerHarness]:
    async with httpx.AsyncClient(base_url=plane.settings.public_url, trust_env=False, timeout=30) as client:
        jobs_api = await JobsApi.open(plane, client, People(plane.rooms.identity.accounts, plane.rooms.identity.keys))
        worker_harness = WorkerHarness(plane, client, jobs_api)
        yield worker_harness
        # Otherwise the workers of this test would count in the next test.
        for worker in worker_harness.workers:
            await worker.deregister("the test is over")
