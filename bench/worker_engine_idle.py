"""How much of its time an engine is idle between one-second renders, with storage 200 ms away.

The engine responds with the recorded delays of ComfyUI. Our agent takes turns with the sequential worker of the first
design, which asks the engine every two seconds, and with the same worker asking all the time: what is left then is what
overlap is worth. The engine itself reports on its socket when it has work; idle is the time from the first render to
the last in which it has none.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from websockets.asyncio.client import ClientConnection, connect

from bench.http_me import HOST
from bench.product import COMFYUI_TIMING, TRIVIAL, RunningProduct, image, lightbox, node, open_product
from bench.results import Result
from bench.sequential_worker import SequentialWorker
from bench.slow_storage import slow_storage
from callsheet.plumbing.http.server import free_address

name = "worker.engine_idle"
seconds = 24.0
short = {"jobs": 2, "render_seconds": 0.1, "usual_poll": 0.1}
RENDER_SECONDS = 1.0
STORAGE_SECONDS = 0.2
TURN_SECONDS = 24.0
JOBS = 20
# The peers need longer for each job.
PEER_JOBS = 6
TARGET_PERCENT = 2.0
# The interval of the first design, and one of almost zero.
USUAL_POLL_SECONDS, QUICK_POLL_SECONDS = 2.0, 0.02
# The limit of a batch. Otherwise a lost job would block the benchmark until its lease expires.
BATCH_SECONDS = 120.0
OVERLAPPING, SEQUENTIAL = "overlapping", "sequential"


@dataclass(slots=True)
class Watch:
    """Times at which the engine had work: pairs of start and end."""

    spans: list[tuple[float, float]] = field(default_factory=list)
    started_at: float | None = None

    def note(self, remaining: int) -> None:
        now = time.perf_counter()
        if remaining and self.started_at is None:
            self.started_at = now
        elif not remaining and self.started_at is not None:
            self.spans.append((self.started_at, now))
            self.started_at = None

    def idle_percent(self, jobs: int) -> float:
        spans, self.spans = self.spans, []
        # Two renders without a gap are one span.
        if not 0 < len(spans) <= jobs:
            raise RuntimeError(f"the engine had work {len(spans)} times for {jobs} jobs")
        whole = spans[-1][1] - spans[0][0]
        return 100 * (1 - sum(end - start for start, end in spans) / whole)


async def run(
    seconds: float, jobs: int = JOBS, render_seconds: float = RENDER_SECONDS, usual_poll: float = USUAL_POLL_SECONDS
) -> list[Result]:
    graph = {
        **TRIVIAL,
        "change": node("ProbeSleep", image=["load", 0], seconds=render_seconds, steps=10, preview=False),
    }
    port, storage = [(await free_address(HOST, 0))[1] for _ in range(2)]
    shares: dict[str, list[float]] = {"ours": [], "usual": [], "quick": []}
    async with (
        slow_storage(f"http://{HOST}:{port}", storage, STORAGE_SECONDS),
        open_product(f"http://{HOST}:{storage}", port) as product,
        lightbox(product.home, variables=COMFYUI_TIMING) as engine,
        watching(engine) as watch,
    ):
        for workflow in (OVERLAPPING, SEQUENTIAL):
            await product.offer(workflow, graph)
        async with product.agent(OVERLAPPING, engine):
            await _batch(product, OVERLAPPING, 1, None)
            watch.spans.clear()
            for _ in range(max(1, round(seconds / TURN_SECONDS))):
                await _batch(product, OVERLAPPING, jobs, None)
                shares["ours"].append(watch.idle_percent(jobs))
                for kind, poll in (("usual", usual_poll), ("quick", QUICK_POLL_SECONDS)):
                    peers = min(jobs, PEER_JOBS)
                    await _sequentially(product, engine, peers, poll)
                    shares[kind].append(watch.idle_percent(peers))
    ours, usual, quick = (statistics.median(shares[kind]) for kind in ("ours", "usual", "quick"))
    unit = f"% idle between {render_seconds:g} s renders, storage {1000 * STORAGE_SECONDS:g} ms away"
    return [
        Result(name=name, value=ours, unit=unit, peer=usual, target=TARGET_PERCENT),
        Result(name=f"{name}.quick_peer", value=ours, unit="% idle; the peer asks every 20 ms", peer=quick),
    ]


async def _sequentially(product: RunningProduct, engine: str, jobs: int, poll_seconds: float) -> None:
    worker = SequentialWorker(product.url, engine, SEQUENTIAL, poll_seconds)
    await worker.register()
    try:
        await _batch(product, SEQUENTIAL, jobs, worker.work)
    finally:
        await worker.leave()


async def _batch(
    product: RunningProduct, effect: str, jobs: int, work: Callable[[int], Awaitable[None]] | None
) -> None:
    """All jobs are queued before the first one is leased. Each has its own image."""
    async with asyncio.timeout(BATCH_SECONDS):
        files = [await product.upload(image(uuid.uuid4().int)) for _ in range(jobs)]
        submitted = [await product.client.submit(effect, file=file) for file in files]
        if work is not None:
            await work(jobs)
        await asyncio.gather(*(product.ended(job) for job in submitted))


@asynccontextmanager
async def watching(engine: str) -> AsyncIterator[Watch]:
    watch = Watch()
    async with connect(f"{engine.replace('http', 'ws', 1)}/ws?clientId={uuid.uuid4().hex}", proxy=None) as socket:
        listening = asyncio.create_task(_listen(socket, watch))
        try:
            yield watch
        finally:
            listening.cancel()
            with suppress(asyncio.CancelledError):
                await listening


async def _listen(socket: ClientConnection, watch: Watch) -> None:
    async for message in socket:
        if isinstance(message, str):
            parsed = json.loads(message)
            if parsed["type"] == "status":
                watch.note(parsed["data"]["status"]["exec_info"]["queue_remaining"])
