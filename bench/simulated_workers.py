"""Workers that render nothing, in a separate process. Each sends its next request as soon as it has the response.

The process reads an order from standard input and writes a report to standard output. With `pairs`, every worker polls
until the round's jobs are leased. Then all outputs are uploaded (not measured: in production these bytes do not go
through the control plane), and then all jobs are completed. With `drain`, each worker polls, uploads and completes
until the queue is empty.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import uvloop

from bench.light_client import Wire, path_of
from bench.processes import cpu_seconds

# The shortest valid beginning of a video file.
OUTPUT = b"\0\0\0\x18ftypmp42" + b"\0" * 52
SHA256 = hashlib.sha256(OUTPUT).hexdigest()
Job = dict[str, Any]


@dataclass(slots=True)
class Worker:
    wire: Wire
    token: str
    worker_id: str
    latencies: list[float] = field(default_factory=list)

    async def call(self, what: str, body: dict[str, Any]) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        requested_at = time.perf_counter()
        status, response = await self.wire.ask("POST", f"/api/worker/{what}", json.dumps(body).encode(), headers)
        self.latencies.append(time.perf_counter() - requested_at)
        if status != 200:
            raise RuntimeError(f"{what} was answered {status}: {response.decode(errors='replace')}")
        return dict(json.loads(response))

    async def poll(self, wait_seconds: float = 0) -> Job | None:
        body = {"worker_id": self.worker_id, "current_load": 0, "max_concurrency": 1000, "wait_seconds": wait_seconds}
        job: Job | None = (await self.call("poll", body))["job"]
        return job

    async def upload(self, job: Job) -> None:
        status, response = await self.wire.ask("PUT", path_of(job["output_url"]), OUTPUT, job["output_headers"])
        if status not in (200, 201, 204):
            raise RuntimeError(f"an upload was answered {status}: {response.decode(errors='replace')}")

    async def complete(self, job: Job) -> None:
        output = {"size": len(OUTPUT), "mime_type": "video/mp4", "sha256": SHA256}
        report = {"dispatch_id": job["dispatch_id"], "lease_token": job["lease_token"], "output": output}
        response = await self.call("complete", report)
        if response["status"] != "completed":
            raise RuntimeError(f"a completed job is {response['status']}")


async def pairs(workers: Sequence[Worker], jobs: int, pid: int) -> dict[str, Any]:
    left, cpu = jobs, 0.0
    held: list[tuple[Worker, Job]] = []

    async def take(worker: Worker) -> None:
        nonlocal left
        while left > 0:
            left -= 1
            job = await worker.poll()
            if job is None:
                raise RuntimeError("work was waiting and a poll was answered without a job")
            held.append((worker, job))

    cpu -= cpu_seconds(pid)
    poll_seconds = await _timed(lambda: _all(take(worker) for worker in workers))
    cpu += cpu_seconds(pid)
    await _all(_each(worker, held, Worker.upload) for worker in workers)
    cpu -= cpu_seconds(pid)
    complete_seconds = await _timed(lambda: _all(_each(worker, held, Worker.complete) for worker in workers))
    cpu += cpu_seconds(pid)
    return {"jobs": len(held), "poll_seconds": poll_seconds, "complete_seconds": complete_seconds, "cpu_seconds": cpu}


async def drain(workers: Sequence[Worker], jobs: int, pid: int) -> dict[str, Any]:
    """Ends when each worker got the response that no job waits. That must not happen while jobs are left in the
    queue."""
    taken: list[str] = []
    requested_at = idle = 0

    async def work(worker: Worker) -> None:
        nonlocal requested_at, idle
        while True:
            requested_at += 1
            due = requested_at <= jobs
            job = await worker.poll()
            if job is None:
                idle += due
                return
            taken.append(job["job_id"])
            await worker.upload(job)
            await worker.complete(job)

    seconds = await _timed(lambda: _all(work(worker) for worker in workers))
    return {"jobs": len(taken), "distinct": len(set(taken)), "idle": idle, "seconds": seconds}


async def _each(
    worker: Worker, held: Sequence[tuple[Worker, Job]], act: Callable[[Worker, Job], Awaitable[None]]
) -> None:
    for holder, job in held:
        if holder is worker:
            await act(worker, job)


async def _all(work: Any) -> None:
    await asyncio.gather(*work)


async def _timed(work: Callable[[], Awaitable[None]]) -> float:
    started = time.perf_counter()
    await work()
    return time.perf_counter() - started


async def _run(order: dict[str, Any]) -> dict[str, Any]:
    workers = [
        Worker(await Wire.open(order["host"], order["port"]), token, worker_id)
        for worker_id, token in order["workers"].items()
    ]
    act = {"pairs": pairs, "drain": drain}[order["what"]]
    report = await act(workers, order["jobs"], order["pid"])
    latencies = sorted(latency for worker in workers for latency in worker.latencies)
    for worker in workers:
        worker.wire.close()
    return {
        **report,
        "p50_ms": 1000 * latencies[len(latencies) // 2],
        "p99_ms": 1000 * latencies[int(len(latencies) * 0.99)],
    }


def main() -> None:
    print(json.dumps(uvloop.run(_run(json.load(sys.stdin)))))


if __name__ == "__main__":
    main()
