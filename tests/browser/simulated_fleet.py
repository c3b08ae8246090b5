"""Workers that render nothing: they lease, report progress and complete, each at one of the control planes until that
one is gone."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import httpx
from PIL import Image

from tests.browser.stack import Stack
from tests.support.http.scripted_worker import Json, ScriptedWorker, described

# More often than a worker has to, so that a page that looks sees it.
HEARTBEAT_SECONDS = 5.0
WAIT_SECONDS = 5
# A job whose payload has this field fails with its value as the message.
FAILS = "fails_with"


@dataclass
class SimulatedFleet:
    slug: str
    urls: Sequence[str]
    image: bytes
    # Set: jobs that were leased go on to their end.
    is_released: asyncio.Event = field(default_factory=asyncio.Event)
    workers: list[SimulatedWorker] = field(default_factory=list)
    # Jobs whose report was accepted.
    completed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def hold(self) -> None:
        """Each worker keeps the job that it leases next."""
        self.is_released.clear()

    def release(self) -> None:
        self.is_released.set()


class SimulatedWorker:
    def __init__(self, fleet: SimulatedFleet, worker_id: str, first: int):
        self.worker_id = worker_id
        self._fleet = fleet
        urls = [*fleet.urls[first:], *fleet.urls[:first]]
        self._clients = [httpx.AsyncClient(base_url=url, trust_env=False, timeout=60) for url in urls]
        self._script = ScriptedWorker(self._clients[0], worker_id)
        self._polls = 0
        self.left = asyncio.Event()

    async def register(self, token: str) -> None:
        await self._script.register(token, fleet_slug=self._fleet.slug, stage="production", max_concurrency=1)

    async def close(self) -> None:
        for client in self._clients:
            await client.aclose()

    async def work(self) -> None:
        """Until it is drained and has nothing left: then it leaves, as a machine does that is taken out."""
        while True:
            response = await self._poll()
            if response["job"] is not None:
                await self._run(response["job"])
            elif response["reason"] == "draining":
                await self._ask("/api/worker/deregister", {"reason": "drained"})
                self.left.set()
                return

    async def _poll(self) -> Json:
        """With an id: if the control plane dies while it responds, the next one gives the same lease."""
        self._polls += 1
        body = {"current_load": 0, "max_concurrency": 1, "wait_seconds": WAIT_SECONDS, "active_leases": []}
        response = await self._ask("/api/worker/poll", {**body, "poll_id": f"{self.worker_id}-{self._polls}"})
        assert response.status_code == 200, response.text
        found: Json = response.json()
        return found

    async def _run(self, job: Json) -> None:
        lease = {"dispatch_id": job["dispatch_id"], "lease_token": job["lease_token"]}
        percent = 25
        while True:
            progress = {"percent": percent, "message": "Rendering"}
            await self._ask("/api/worker/heartbeat", {**lease, "run_started": True, "progress": progress})
            with suppress(TimeoutError):
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    await self._fleet.is_released.wait()
                break
            percent = min(90, percent + 5)
        message = job["input_payload"].get(FAILS)
        if message is not None:
            error = {"type": "engine_error", "message": message, "retryable": False}
            await self._report("fail", {**lease, "error_message": message, "error": error})
            self._fleet.failed.append(job["job_id"])
            return
        await self._upload(job)
        await self._report("complete", {**lease, "output": described(self._fleet.image, "image/png")})
        self._fleet.completed.append(job["job_id"])

    async def _report(self, kind: str, body: Json) -> None:
        response = await self._ask(f"/api/worker/{kind}", body)
        assert response.status_code == 200, response.text

    async def _upload(self, job: Json) -> None:
        while True:
            with suppress(httpx.TransportError):
                return await self._script.deliver(job, self._fleet.image)
            await self._go_on()

    async def _ask(self, path: str, body: Json) -> httpx.Response:
        """At the next control plane where this one does not respond."""
        while True:
            with suppress(httpx.TransportError):
                response = await self._script.post(path, {"worker_id": self.worker_id, **body})
                # A control plane that is starting or stopping.
                if response.status_code != 503:
                    return response
            await self._go_on()

    async def _go_on(self) -> None:
        self._clients = [*self._clients[1:], self._clients[0]]
        self._script.client = self._clients[0]
        await asyncio.sleep(0.1)


def tiny_image() -> bytes:
    content = io.BytesIO()
    Image.linear_gradient("L").resize((64, 40)).save(content, "PNG")
    return content.getvalue()


@asynccontextmanager
async def simulated_fleet(
    stack: Stack, urls: Sequence[str], workflows: Sequence[str], count: int
) -> AsyncIterator[SimulatedFleet]:
    """A fleet of so many workers, spread over the control planes at these URLs."""
    fleet = SimulatedFleet("render-farm", urls, tiny_image())
    async with stack.client(stack.operator) as operator:
        body = {"slug": fleet.slug, "workflow_slugs": list(workflows)}
        created = await operator.post("/api/admin/fleets", json=body)
        assert created.status_code == 201, created.text
        token = await operator.post(f"/api/admin/fleets/{created.json()['id']}/tokens", json={"name": "test"})
        for number in range(count):
            worker = SimulatedWorker(fleet, f"gpu-{number:02}", number % len(urls))
            await worker.register(token.json()["token"])
            await operator.post(f"/api/admin/workers/{worker.worker_id}/approve")
            fleet.workers.append(worker)
    tasks = [asyncio.create_task(worker.work()) for worker in fleet.workers]
    try:
        yield fleet
        # One that stopped early has a reason that the test must show.
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for worker in fleet.workers:
            await worker.close()
