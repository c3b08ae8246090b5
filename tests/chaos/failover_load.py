"""Clients and workers that go on through a failover, as real ones do: they repeat what got no response or a 503.

load = Load(planes, admin, request, fleet_secret, batch)
async with load.running():
    await load.goes_on()                        # a job and a batch were accepted and a lease given since now
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from tests.support.http.scripted_worker import ScriptedWorker, described
from tests.support.http.worker_harness import OUTPUT
from tests.support.waiting import until

CLIENTS, WORKERS = 3, 3
# A real client waits longer. These notice the end of an outage soon.
PAUSE_SECONDS = 0.1
MIN_ACKNOWLEDGED = 20
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Batches:
    """A batch that is submitted again and again, with the headers of its user and the workflow of its effect."""

    request: dict[str, Any]
    headers: dict[str, str]
    workflow: str


class Load:
    def __init__(
        self,
        planes: Sequence[str],
        headers: dict[str, str],
        request: dict[str, Any],
        secret: str,
        batches: Batches,
    ):
        self._planes = itertools.cycle(planes)
        self._headers = headers
        self._request = request
        self._secret = secret
        self._batches = batches
        self.acknowledged: set[str] = set()
        self.batches: set[str] = set()
        self.statuses: Counter[int] = Counter()
        # When the requests were sent that submitted the last job and the last batch, and that leased the last job.
        self.accepted_at = self.batched_at = self.leased_at = 0.0
        # Responses that no failover may cause.
        self.wrong: list[str] = []

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with httpx.AsyncClient(trust_env=False, timeout=10) as client:
            submitting = [self._submit_jobs(client) for _ in range(CLIENTS)]
            work = [*submitting, self._submit_batches(client), *(self._work(client) for _ in range(WORKERS))]
            tasks = [asyncio.create_task(each) for each in work]
            try:
                await until(lambda: len(self.acknowledged) >= MIN_ACKNOWLEDGED or any(task.done() for task in tasks))
                await self.goes_on()
                yield
            finally:
                for task in tasks:
                    task.cancel()
                ended = await asyncio.gather(*tasks, return_exceptions=True)
            assert [each for each in ended if not isinstance(each, asyncio.CancelledError)] == []

    async def goes_on(self) -> float:
        """Waits until requests that are sent from now on submit a job and a batch and lease a job. Returns the seconds
        until then.
        """
        since = time.monotonic()
        await until(lambda: min(self.accepted_at, self.batched_at, self.leased_at) > since)
        return time.monotonic() - since

    def plane(self) -> str:
        """The URL of the next control plane."""
        return next(self._planes)

    async def _send(self, client: httpx.AsyncClient, method: str, path: str, **options: Any) -> httpx.Response | None:
        """None if there was no response, or one that says that the client shall try again."""
        try:
            response = await client.request(method, self.plane() + path, **options)
        except httpx.TransportError:
            return None
        self.statuses[response.status_code] += 1
        if response.status_code >= 500 and (response.status_code != 503 or "retry-after" not in response.headers):
            self.wrong.append(f"{path}: {response.status_code} {response.text}")
        if response.status_code in (429, 503):
            return None
        return response

    async def _submit_jobs(self, client: httpx.AsyncClient) -> None:
        while True:
            job, sent = await self._submitted(client, "/api/admin/jobs", self._request, self._headers)
            if job is not None:
                self.acknowledged.add(job)
                self.accepted_at = max(self.accepted_at, sent)

    async def _submit_batches(self, client: httpx.AsyncClient) -> None:
        while True:
            batch, sent = await self._submitted(client, "/api/batches", self._batches.request, self._batches.headers)
            if batch is not None:
                self.batches.add(batch)
                self.batched_at = max(self.batched_at, sent)

    async def _submitted(
        self, client: httpx.AsyncClient, path: str, request: dict[str, Any], headers: dict[str, str]
    ) -> tuple[str | None, float]:
        """The id of what was accepted, and when the accepted request was sent."""
        body = {**request, "idempotency_key": f"order-{next(_numbers)}"}
        sent = time.monotonic()
        while (response := await self._send(client, "POST", path, json=body, headers=headers)) is None:
            await asyncio.sleep(PAUSE_SECONDS)
            sent = time.monotonic()
        await asyncio.sleep(PAUSE_SECONDS)
        if response.status_code in (200, 201):
            return str(response.json()["id"]), sent
        self.wrong.append(f"{path}: {response.status_code} {response.text}")
        return None, sent

    async def _work(self, client: httpx.AsyncClient) -> None:
        name, token = f"failover-{next(_numbers)}", ""
        while True:
            if not token:
                token = await self._register(client, name)
            sent = time.monotonic()
            polled = await self._report(client, token, "poll", {"worker_id": name, "current_load": 0, "leases": []})
            if polled is None:
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            if polled.status_code == 401:
                token = ""
                continue
            job = polled.json()["job"]
            if job is None:
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            self.leased_at = max(self.leased_at, sent)
            await self._finish(client, token, job)

    async def _register(self, client: httpx.AsyncClient, name: str) -> str:
        while True:
            body = {"worker_id": name, "workflow_slugs": [self._request["workflow"], self._batches.workflow]}
            response = await self._send(
                client, "POST", "/api/worker/register", json=body, headers={"x-fleet-secret": self._secret}
            )
            if response is not None and response.status_code == 201:
                return str(response.json()["token"])
            await asyncio.sleep(PAUSE_SECONDS)

    async def _report(
        self, client: httpx.AsyncClient, token: str, what: str, body: dict[str, Any]
    ) -> httpx.Response | None:
        headers = {"authorization": f"Bearer {token}"}
        return await self._send(client, "POST", f"/api/worker/{what}", json=body, headers=headers)

    async def _finish(self, client: httpx.AsyncClient, token: str, job: dict[str, Any]) -> None:
        """Until the result is accepted, or another worker has the job."""
        while True:
            try:
                worker = ScriptedWorker(client, "", token)
                stored = await worker.upload(job["output_url"], job["output_headers"], OUTPUT)
                if stored.status_code == 200:
                    break
                assert stored.status_code in (409, 503), stored.text
            except httpx.TransportError:
                pass
            await asyncio.sleep(PAUSE_SECONDS)
        lease = {"dispatch_id": job["dispatch_id"], "lease_token": job["lease_token"]}
        body = {**lease, "output": described(OUTPUT, "video/mp4")}
        while (response := await self._report(client, token, "complete", body)) is None:
            await asyncio.sleep(PAUSE_SECONDS)
        # 404: the dispatch was lost with its database's last changes.
        if response.status_code not in (200, 401, 404, 409):
            self.wrong.append(f"complete: {response.status_code} {response.text}")
