"""Throughput of one agent with one to four engines that share a GPU, and how much of its time each engine is idle.

The engines are Lightboxes, and the GPU is a lock: a job works for itself most of its time and holds the lock for the
rest, so that several engines overlap as they do on one card. Storage is 200 ms away. The ceiling are the same engines
with the same runs in their own queues, without Callsheet: an engine never waits for its next run there.
"""

from __future__ import annotations

import asyncio
import statistics
import time
import uuid
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

import httpx

from bench.http_me import HOST
from bench.product import TRIVIAL, Graph, RunningProduct, image, lightbox, node, open_product
from bench.results import Result
from bench.slow_storage import slow_storage
from bench.worker_engine_idle import Watch, watching
from callsheet.plumbing.http.server import free_address

name = "worker.engines"
seconds = 60.0
short = {"max_engines": 2, "jobs_each": 1, "own_seconds": 0.05, "gpu_seconds": 0.02, "storage_seconds": 0.02}
MAX_ENGINES = 4
JOBS_EACH = 6
# One engine keeps the GPU 25 % busy. ComfyUI did so on an H200 with a sampler of the size of Stable Diffusion 1.5.
OWN_SECONDS, GPU_SECONDS = 0.9, 0.3
STORAGE_SECONDS = 0.2
ROUND_SECONDS = 60.0
BATCH_SECONDS = 300.0
EFFECT = "shared-gpu"
POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Load:
    """The work of one job."""

    own_seconds: float
    gpu_seconds: float

    def graph(self, source: Graph) -> Graph:
        """`source` is a node `load` that no other run has."""
        return {
            **source,
            "own": node("ProbeSleep", image=["load", 0], seconds=self.own_seconds, steps=5, preview=False),
            "gpu": node("BenchGpu", image=["own", 0], seconds=self.gpu_seconds),
            "save": node("SaveImage", images=["gpu", 0], filename_prefix="bench"),
        }


@dataclass(frozen=True, slots=True)
class Measured:
    per_second: float
    # For each engine.
    idle_percent: Sequence[float]


async def run(
    seconds: float,
    max_engines: int = MAX_ENGINES,
    jobs_each: int = JOBS_EACH,
    own_seconds: float = OWN_SECONDS,
    gpu_seconds: float = GPU_SECONDS,
    storage_seconds: float = STORAGE_SECONDS,
) -> list[Result]:
    load = Load(own_seconds, gpu_seconds)
    ours: dict[int, list[Measured]] = {number: [] for number in range(1, max_engines + 1)}
    bare: dict[int, list[float]] = {number: [] for number in ours}
    port, storage = [(await free_address(HOST, 0))[1] for _ in range(2)]
    async with AsyncExitStack() as undo:
        await undo.enter_async_context(slow_storage(f"http://{HOST}:{port}", storage, storage_seconds))
        product = await undo.enter_async_context(open_product(f"http://{HOST}:{storage}", port))
        gpu = product.home.parent / "gpu.lock"
        gpu.touch()
        engines = [
            await undo.enter_async_context(lightbox(product.home, f"engine-{number}", {"BENCH_GPU": str(gpu)}))
            for number in range(1, max_engines + 1)
        ]
        watches = [await undo.enter_async_context(watching(each)) for each in engines]
        await product.offer(EFFECT, load.graph({"load": TRIVIAL["load"]}))
        for _ in range(max(1, round(seconds / ROUND_SECONDS))):
            for number in ours:
                bare[number].append(await _bare(engines[:number], load, jobs_each))
                ours[number].append(await _through(product, engines[:number], watches[:number], jobs_each))
    per_second = {number: statistics.median(each.per_second for each in found) for number, found in ours.items()}
    results = [
        Result(
            name=name,
            value=max(per_second.values()) / per_second[1],
            unit=f"times one engine, up to {max_engines} engines",
        )
    ]
    for number, found in ours.items():
        shown = f"jobs/s with {number} engine{'s' if number > 1 else ''}"
        ceiling = statistics.median(bare[number])
        results.append(Result(name=f"{name}.{number}", value=per_second[number], unit=shown, ceiling=ceiling))
        idle = statistics.median(statistics.mean(each.idle_percent) for each in found)
        results.append(Result(name=f"{name}.{number}.idle", value=idle, unit="% idle, mean of the engines"))
        idlest = statistics.median(max(each.idle_percent) for each in found)
        results.append(Result(name=f"{name}.{number}.idlest", value=idlest, unit="% idle, the idlest engine"))
    return results


async def _through(
    product: RunningProduct, engines: Sequence[str], watches: Sequence[Watch], jobs_each: int
) -> Measured:
    """Runs one agent with all engines. Measures from the start of the first run to the end of the last.

    All jobs are queued before the agent starts, like the runs of the ceiling, so that the time of submitting does not
    count.
    """
    jobs = jobs_each * len(engines)
    files = [await product.upload(image(uuid.uuid4().int)) for _ in range(jobs)]
    submitted = [await product.client.submit(EFFECT, file=file) for file in files]
    for watch in watches:
        watch.spans.clear()
    async with (
        asyncio.timeout(BATCH_SECONDS),
        product.agent(EFFECT, engines[0], CALLSHEET_ENGINE__URLS=",".join(engines)),
    ):
        await asyncio.gather(*(product.ended(job) for job in submitted))
    spans = [span for watch in watches for span in watch.spans]
    start, end = min(since for since, _ in spans), max(until for _, until in spans)
    busy = [sum(until - since for since, until in watch.spans) for watch in watches]
    return Measured(jobs / (end - start), [100 * (1 - each / (end - start)) for each in busy])


async def _bare(engines: Sequence[str], load: Load, jobs_each: int) -> float:
    started_at = time.perf_counter()
    async with asyncio.timeout(BATCH_SECONDS):
        await asyncio.gather(*(_queue_up(each, load, jobs_each) for each in engines))
    return jobs_each * len(engines) / (time.perf_counter() - started_at)


async def _queue_up(engine: str, load: Load, jobs: int) -> None:
    async with httpx.AsyncClient(base_url=engine, trust_env=False) as client:
        for _ in range(jobs):
            color = uuid.uuid4().int % 2**24
            graph = load.graph({"load": node("EmptyImage", width=64, height=64, batch_size=1, color=color)})
            (await client.post("/prompt", json={"prompt": graph})).raise_for_status()
        # The engine is polled instead of using its socket, as a client without Callsheet may do.
        while (await client.get("/prompt")).json()["exec_info"]["queue_remaining"]:  # noqa: ASYNC110
            await asyncio.sleep(POLL_SECONDS)
