"""Memory of the agent's process: at its start, over many jobs, and while a gigabyte passes through it.

Every job downloads its file from storage, because the agent caches no files here; the jobs are small, so that there are
many. The large result is a real file of the engine, fetched, uploaded and checked like any other.
"""

from __future__ import annotations

import asyncio
import os
import re
import statistics
from pathlib import Path

from bench.processes import resident_mb
from bench.product import TRIVIAL, RunningProduct, image, lightbox, node, open_product
from bench.results import Result

name = "worker.memory"
short = {"jobs": 9, "megabytes": 16, "idle_seconds": 0.2}
IDLE_SECONDS = 2.0
JOBS, MEGABYTES = 500, 1000
TARGET_MB = 80.0
# Jobs that wait while one runs. As in production, the next job is prefetched.
QUEUED = 4
SMALL, LARGE = "small", "large"
JOB_SECONDS = 180.0
LARGE_SECONDS = 300.0
# Both parts use the same agent, without a cache.
KEEP_NOTHING = {"CALLSHEET_WORKER__CACHE_BYTES": "0"}


async def run(
    seconds: float, jobs: int = JOBS, megabytes: int = MEGABYTES, idle_seconds: float = IDLE_SECONDS
) -> list[Result]:
    """Runs a fixed number of jobs. `seconds` has no effect."""
    async with open_product() as product, lightbox(product.home) as engine:
        await product.offer(SMALL, TRIVIAL)
        save = node("BenchLargeFile", megabytes=megabytes, filename_prefix="bench")
        await product.offer(LARGE, {"save": save}, "mp4", "video/mp4")
        async with product.agent(f"{SMALL},{LARGE}", engine, **KEEP_NOTHING) as pid:
            await asyncio.sleep(idle_seconds)
            start = resident_mb(pid)
            samples = await _small_jobs(product, pid, jobs)
            many = peak_mb(pid)
            forget_peak(pid)
            async with asyncio.timeout(LARGE_SECONDS):
                await product.ended(await product.client.submit(LARGE))
            large = peak_mb(pid)
    third = max(1, len(samples) // 3)
    first, last = statistics.median(samples[:third]), statistics.median(samples[-third:])
    unit = f"MB resident, last third of {jobs} jobs; the peer is the first third"
    return [
        Result(name=f"{name}.start", value=start, unit="MB resident", target=TARGET_MB),
        Result(name=name, value=last, unit=unit, peer=first, target=TARGET_MB),
        Result(name=f"{name}.most", value=many, unit=f"MB at most, over {jobs} jobs", target=TARGET_MB),
        Result(
            name=f"{name}.large",
            value=large,
            unit=f"MB at most, over a result of {megabytes} MB; the peer is before it",
            peer=samples[-1],
            target=TARGET_MB,
        ),
    ]


async def _small_jobs(product: RunningProduct, pid: int, jobs: int) -> list[float]:
    file = await product.upload(image(1))
    samples: list[float] = []

    async def keep_submitting(count: int) -> None:
        for _ in range(count):
            async with asyncio.timeout(JOB_SECONDS):
                await product.ended(await product.client.submit(SMALL, file=file))
            samples.append(resident_mb(pid))

    shares = [jobs // QUEUED + (number < jobs % QUEUED) for number in range(QUEUED)]
    await asyncio.gather(*map(keep_submitting, shares))
    return samples


def peak_mb(pid: int) -> float:
    """The peak since its start, or since `forget_peak`. If the system does not report the peak, the current memory."""
    try:
        status = Path(f"/proc/{pid}/status").read_text("ascii")
    except OSError:
        return resident_mb(pid)
    found = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
    return int(found[1]) * 1024 / 1e6 if found else resident_mb(pid)


def forget_peak(pid: int) -> None:
    if os.path.exists(f"/proc/{pid}/clear_refs"):
        Path(f"/proc/{pid}/clear_refs").write_text("5", "ascii")
