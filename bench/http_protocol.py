"""The worker protocol over HTTP: poll-with-job and complete, in pairs, through one control-plane process.

The ceiling is the same server and framework with one indexed SELECT for each request; the peer is the control plane
that does the same (`GET /api/me`). Neither writes or decodes a file, so the outputs are in memory and get no previews.
`http.protocol.bare` compares with bare statements: the same requests with as many statements and commits.
`http.protocol.disk` is the product as it is installed: with previews, and with outputs on the disk of this machine,
each made durable before its job is completed. The databases are on that disk in both. And a queue that fifty workers
drain, on the disk: nothing lost or done twice, no worker idle while work waits.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import asyncpg
import httpx

from bench.bare_protocol import SETUP
from bench.database_counters import Counter, counting
from bench.http_me import HOST, Target, bare_server, create_user
from bench.installation import TOKENS, unread_logs
from bench.processes import ROOT, fresh_home, serving
from bench.results import Result
from callsheet.jobs.room import JobsRoom
from callsheet.jobs.submit.new_jobs import NewJob
from callsheet.plumbing.database.databases import Databases, open_databases
from callsheet.plumbing.http.server import free_address
from callsheet.settings import JobSettings, load_settings
from callsheet.toolbox.ids import uuid7
from callsheet.wallet.ledger import credit
from tests.support.rooms import jobs_room

name = "http.protocol"
seconds = 20.0
short = {"round_jobs": 48, "queue": 100}
WORKERS, DRAINING = 50, 50
MEMORY = Path("/dev/shm")
FLEET_SECRET = "the-secret-of-a-bench-fleet"
# What a small effect sends along: a graph, an input to fetch, an output to deliver.
PAYLOAD = {
    "workflow": {str(node): {"class_type": "Node", "inputs": {"value": node, "text": "a cat"}} for node in range(12)},
    "assets": [
        {
            "key": "clip",
            "placeholder": "__INPUT_PATH__",
            "path": "catalog/clip.mp4",
            "content_hash": "0" * 64,
            "type": "video",
            "is_primary_input": True,
            "name": "clip.mp4",
            "mime_type": "video/mp4",
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


@dataclass(slots=True)
class Rounds:
    """What the rounds of pairs gave."""

    per_second: list[float] = field(default_factory=list)
    cpu_microseconds: list[float] = field(default_factory=list)
    statements: list[float] = field(default_factory=list)
    p50_ms: list[float] = field(default_factory=list)
    p99_ms: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Site:
    """A control plane under load, and a way to fill its queue from outside."""

    pid: int
    port: int
    room: JobsRoom
    workflow_id: int
    tenant_id: Any
    users: Sequence[Any]
    workers: dict[str, str]
    # The bare worker protocol, which always has a job.
    is_bare: bool = False

    async def fill(self, jobs: int) -> None:
        await asyncio.gather(*(self._submit(number) for number in range(jobs)))

    async def _submit(self, number: int) -> None:
        await self.room.submission.submit(
            NewJob(self.tenant_id, self.users[number % len(self.users)], "effect", self.workflow_id, PAYLOAD, 1)
        )

    async def simulate(self, what: str, jobs: int, workers: int) -> dict[str, Any]:
        chosen = dict(list(self.workers.items())[:workers])
        order = {"what": what, "host": HOST, "port": self.port, "workers": chosen, "jobs": jobs, "pid": self.pid}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bench.simulated_workers"),
            cwd=ROOT,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        # On standard input, not on the command line: tokens are in it.
        output, _ = await process.communicate(json.dumps(order).encode())
        if process.returncode != 0:
            raise RuntimeError("the simulated workers failed; what they said is above")
        return dict(json.loads(output))


async def run(seconds: float, round_jobs: int = 500, queue: int = 5000) -> list[Result]:
    in_memory = await _measure(seconds, round_jobs, in_memory=True)
    on_disk = await _measure(seconds / 2, round_jobs, in_memory=False, queue=queue)
    pairs, *others = in_memory
    disk, *_, drained = on_disk
    return [pairs, replace(disk, name=f"{name}.disk"), *others, drained]


async def _measure(seconds: float, round_jobs: int, in_memory: bool, queue: int = 0) -> list[Result]:
    with fresh_home() as home, unread_logs(), _outputs(home, in_memory):
        databases = await open_databases(load_settings(home=home, database={"dsn": None}))
        try:
            user_id, key = await create_user(databases)
            port = (await free_address(HOST, 0))[1]
            settings = {
                "CALLSHEET_FLEET__SECRET": FLEET_SECRET,
                "CALLSHEET_FLEET__MAX_WORKERS": str(DRAINING),
                "CALLSHEET_MEDIA__PREVIEWS": str(not in_memory),
            }
            async with (
                serving(home, port, settings) as plane,
                bare_server(databases.central.dsn, user_id, PAYLOAD) as (bare_pid, other),
                counting(databases) as counter,
            ):
                await _create_bare_tables(databases)
                site = await open_site(databases, plane.pid, port)
                bare = replace(site, pid=bare_pid, port=other, is_bare=True)
                select = Target(bare_pid, other, "/select")
                me = Target(plane.pid, port, "/api/me", {"Authorization": f"Bearer {key}"})
                results = await _pairs(site, bare, counter, me, select, seconds, round_jobs)
                return [*results, *(await _drain(site, queue) if queue else [])]
        finally:
            await databases.close()


@contextmanager
def _outputs(home: Path, in_memory: bool) -> Iterator[None]:
    """A link to a directory in memory, where the machine has one."""
    if not in_memory or not MEMORY.is_dir():
        yield
        return
    with tempfile.TemporaryDirectory(prefix="callsheet-bench-", dir=MEMORY) as directory:
        home.mkdir()
        (home / "storage").symlink_to(directory)
        yield


async def _create_bare_tables(databases: Databases) -> None:
    assert databases.embedded is not None
    # As the superuser: the role of the control plane creates no tables.
    connection = await asyncpg.connect(databases.embedded.dsn(databases.central.name))
    try:
        await connection.execute(SETUP)
    finally:
        await connection.close()


async def _pairs(
    site: Site, bare: Site, counter: Counter, me: Target, select: Target, seconds: float, jobs: int
) -> list[Result]:
    rounds, bare_rounds = Rounds(), Rounds()
    # Before anything counts: connections are opened, statements prepared.
    for each in (site, bare):
        await _round(each, jobs, Rounds(), counter)
    for _ in range(max(1, round(seconds / 4))):
        await select.slice(min(1.0, seconds))
        await _round(site, jobs, rounds, counter)
        await me.slice(min(1.0, seconds))
        await _round(bare, jobs, bare_rounds, counter)
    return [
        Result(
            name=name,
            value=statistics.median(rounds.per_second),
            unit="pairs/s",
            ceiling=select.per_second(),
            peer=me.per_second(),
            p50_ms=statistics.median(rounds.p50_ms),
            p99_ms=statistics.median(rounds.p99_ms),
        ),
        Result(
            name=f"{name}.cpu",
            value=statistics.median(rounds.cpu_microseconds),
            unit="µs CPU/pair",
            ceiling=select.cpu(),
            peer=me.cpu(),
        ),
        Result(
            name=f"{name}.bare",
            value=statistics.median(rounds.per_second),
            unit=f"pairs/s; bare: {statistics.median(bare_rounds.statements):.2f} statements/pair",
            ceiling=statistics.median(bare_rounds.per_second),
        ),
        Result(
            name=f"{name}.bare_cpu",
            value=statistics.median(rounds.cpu_microseconds),
            unit="µs CPU/pair",
            ceiling=statistics.median(bare_rounds.cpu_microseconds),
        ),
        Result(
            name=f"{name}.statements",
            value=statistics.median(rounds.statements),
            unit=f"statements/pair, {WORKERS} workers",
        ),
    ]


async def _round(site: Site, jobs: int, rounds: Rounds, counter: Counter) -> None:
    if not site.is_bare:
        await site.fill(jobs)
    before = await counter.statements()
    report = await site.simulate("pairs", jobs, WORKERS)
    rounds.statements.append((await counter.statements() - before) / jobs)
    rounds.cpu_microseconds.append(1e6 * report["cpu_seconds"] / jobs)
    rounds.per_second.append(jobs / (report["poll_seconds"] + report["complete_seconds"]))
    rounds.p50_ms.append(report["p50_ms"])
    rounds.p99_ms.append(report["p99_ms"])


async def _drain(site: Site, jobs: int) -> list[Result]:
    await site.fill(jobs)
    report = await site.simulate("drain", jobs, DRAINING)
    if (report["jobs"], report["distinct"], report["idle"]) != (jobs, jobs, 0):
        raise RuntimeError(f"jobs were lost, done twice, or waited while a worker was idle: {report}")
    unit = f"jobs/s, {jobs} by {DRAINING} workers; none lost, none twice, nobody idle"
    return [Result(name=f"{name}.drain", value=jobs / report["seconds"], unit=unit)]


async def open_site(databases: Databases, pid: int, port: int) -> Site:
    async with databases.central.connection() as connection:
        workflow_id = await connection.fetchval(
            "INSERT INTO workflows (slug, name) VALUES ('bench', 'Bench') RETURNING id"
        )
        tenant_id = await connection.fetchval("SELECT id FROM tenants WHERE slug = 'bench'")
    users = [uuid7() for _ in range(100)]
    for user in users:
        await credit(databases.pools[0], tenant_id, user, TOKENS, f"bench-{user}")
    room = jobs_room(databases, JobSettings(active_per_user=100_000, submits_per_minute=None))
    return Site(pid, port, room, workflow_id, tenant_id, users, await _register(port, DRAINING))


async def _register(port: int, count: int) -> dict[str, str]:
    async with httpx.AsyncClient(base_url=f"http://{HOST}:{port}", trust_env=False, timeout=60) as client:
        tokens: dict[str, str] = {}
        for number in range(count):
            worker_id = f"bench-{number}"
            body = {"worker_id": worker_id, "workflow_slugs": ["bench"], "max_concurrency": 1000}
            response = await client.post("/api/worker/register", json=body, headers={"X-Fleet-Secret": FLEET_SECRET})
            response.raise_for_status()
            tokens[worker_id] = response.json()["token"]
    return tokens
