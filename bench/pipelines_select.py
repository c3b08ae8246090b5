"""Choosing the next job of a run that has made 100,000 candidates, as the loop does: what it reads, and the draw.

In four shapes of the tree. Beside each: one SELECT by primary key, and the same choice by loading the tree. Then a tick
of the loop over a thousand active runs that all wait for jobs of theirs.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from uuid import UUID

from bench.database_counters import Counter, counter
from bench.installation import BenchInstallation, open_bench_installation
from bench.large_runs import SPREAD, STEPS, Shape, filling
from bench.processes import fresh_home
from bench.results import Result
from callsheet.media.storage import open_storage
from callsheet.pipelines.rows import ClaimedRun
from callsheet.pipelines.run.scheduler import RunScheduler, choose_parent, read_snapshot
from callsheet.pipelines.run.selection import Draw, Mode, next_group
from callsheet.plumbing.installation.secrets import master_secret
from callsheet.settings import load_settings
from tests.support.rooms import catalog_room, media_room, pipelines_room

name = "pipelines.select"
CANDIDATES, RUNS = 100_000, 1000
short = {"candidates": 3000, "runs": 20}
TARGET_MS = 20.0
# A tick with nothing to do asks whether there is room, and whether a run is due.
TICK_STATEMENTS = 2.0
WARM_UP, LOADS, IDLE_TICKS = 10, 3, 50
READ_RUN = f"""
SELECT {", ".join(ClaimedRun._fields[:-1])}, due_at AS was_due_at FROM pipeline_runs WHERE tenant_id = $1 AND id = $2
"""
LOAD = """
SELECT id, number, position, status, elo, child_count, in_flight, max_children, failure_count, slots, file_id
FROM candidates WHERE run_id = $1 ORDER BY number
"""


def shapes(candidates: int) -> Mapping[str, Shape]:
    """By what is added to the benchmark's name."""
    return {
        # As a run that finishes first what is nearest done has it nearly always.
        "": Shape(SPREAD, "place.position = 3 AND n % 401 = 1"),
        # A sixth of all may have a child.
        ".wide": Shape(SPREAD, "place.position = 3"),
        # All are bases, and all of them may.
        ".widest": Shape("1", "true", "breadth_first", candidates),
        # A fifth are bases, whose best are full; the best of the others go on. Both steps were approved.
        ".best": Shape(
            f"CASE WHEN n <= {candidates // 5} THEN 1 ELSE 2 END",
            "place.position = 2",
            "breadth_first",
            candidates // 5,
            min(1000, candidates // 10),
        ),
    }


@dataclass(slots=True)
class Timed:
    run_id: UUID
    ours: list[float] = field(default_factory=list)
    key: list[float] = field(default_factory=list)
    loaded: list[float] = field(default_factory=list)


async def run(seconds: float, candidates: int = CANDIDATES, runs: int = RUNS) -> list[Result]:
    async with open_bench_installation() as installation, counter(installation) as count:
        async with filling(installation) as filler:
            timed = {kind: Timed(await filler.add_run(shape, candidates)) for kind, shape in shapes(candidates).items()}
        for each in timed.values():
            await _choose(installation, each, WARM_UP / 1000, 0)
            each.ours.clear()
            each.key.clear()
            for _ in range(LOADS):
                each.loaded.append(await _load(installation, each.run_id))
        rounds = max(2, round(seconds / 2))
        for number in range(rounds):
            for each in timed.values():
                await _choose(installation, each, seconds / rounds / len(timed), 1_000_000 * (number + 1))
        ticks = await _tick(installation, count, runs)
    return [*(_result(f"{name}{kind}", each, candidates) for kind, each in timed.items()), *ticks]


def _result(full_name: str, timed: Timed, candidates: int) -> Result:
    ours = sorted(timed.ours)
    return Result(
        name=full_name,
        value=1000 * statistics.median(ours),
        unit=f"ms/choice among {candidates:,} candidates",
        ceiling=1000 * statistics.median(timed.key),
        peer=1000 * statistics.median(timed.loaded),
        target=TARGET_MS,
        p50_ms=1000 * statistics.median(ours),
        p99_ms=1000 * ours[int(len(ours) * 0.99)],
    )


async def _choose(installation: BenchInstallation, timed: Timed, seconds: float, draws: int) -> None:
    """In turns: the run by its key, as the bare read; then the choice of its next job."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until or len(timed.ours) < WARM_UP:
        draws += 1
        started_at = time.perf_counter()
        row = await _by_key(installation, timed.run_id)
        read = time.perf_counter()
        snapshot = await read_snapshot(installation.pool, row)
        choice = next_group(snapshot.state)
        parent = await choose_parent(installation.pool, row, snapshot, choice, Draw(row.seed, draws))
        timed.ours.append(time.perf_counter() - read)
        timed.key.append(read - started_at)
        if choice.mode is not Mode.CHILD_GENERATION or parent is None:
            raise RuntimeError(f"nobody was chosen: {choice}")


async def _by_key(installation: BenchInstallation, run_id: UUID) -> ClaimedRun:
    async with installation.pool.connection() as connection:
        row = await connection.fetchrow(READ_RUN, installation.tenant_id, run_id)
    assert row is not None
    return ClaimedRun._make(row)


async def _load(installation: BenchInstallation, run_id: UUID) -> float:
    """Seconds that the choice takes in a process that has the whole tree in memory."""
    started_at = time.perf_counter()
    async with installation.pool.connection() as connection:
        rows = await connection.fetch(LOAD, run_id)
    eligible = [
        row
        for row in rows
        if row["status"] == "active"
        and row["position"] < STEPS
        and row["child_count"] + row["in_flight"] < row["max_children"]
        and row["failure_count"] < 3
    ]
    highest = max(row["position"] for row in eligible)
    parents = [row for row in eligible if row["position"] == highest]
    assert parents[Draw(7, 1).parent([row["elo"] for row in parents])] in parents
    return time.perf_counter() - started_at


async def _tick(installation: BenchInstallation, count: Counter, runs: int) -> list[Result]:
    async with _scheduler(installation) as scheduler:
        async with filling(installation) as filler:
            # The runs measured above may submit their next job, and no worker would render it.
            await filler.connection.execute("UPDATE pipeline_runs SET status = 'paused'")
            await filler.add_busy_runs(runs)
        before = await count.statements()
        while await scheduler.advance_due(installation.pool):
            pass
        read_statements = await count.statements() - before
        await scheduler.advance_due(installation.pool)
        before, times = await count.statements(), []
        for _ in range(IDLE_TICKS):
            started_at = time.perf_counter()
            await scheduler.advance_due(installation.pool)
            times.append(time.perf_counter() - started_at)
        statements = await count.statements() - before
    times.sort()
    return [
        Result(name=f"{name}.look", value=read_statements / runs, unit=f"statements/run, {runs:,} are due once"),
        Result(
            name=f"{name}.idle_tick",
            value=statements / IDLE_TICKS,
            unit=f"statements/tick, {runs:,} runs wait for their jobs",
            target=TICK_STATEMENTS,
            p50_ms=1000 * statistics.median(times),
            p99_ms=1000 * times[int(len(times) * 0.99)],
        ),
    ]


@asynccontextmanager
async def _scheduler(installation: BenchInstallation) -> AsyncIterator[RunScheduler]:
    """As a control plane has it, with room for every job."""
    with fresh_home() as home:
        home.mkdir()
        settings = load_settings(home=home, pipelines={"jobs_in_total": 100_000})
        secret = master_secret(settings)
        storage = open_storage(settings, secret, None)
        try:
            databases = installation.databases
            media = media_room(databases, storage, settings)
            catalog = catalog_room(databases, storage)
            yield pipelines_room(databases, catalog, media, installation.room, settings.pipelines).scheduler
        finally:
            await storage.close()
