"""What a pooler costs: the whole paid job of `jobs.full` through PgBouncer, beside the same without it on one server.

In session mode, everything goes through PgBouncer. In transaction mode (`database.pooler.transaction`), only hot
statements do. A mode that this machine's PgBouncer cannot do is left out.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from bench.alternating_queues import take_turns
from bench.installation import BenchInstallation, open_bench_installation
from bench.jobs_full import CALLERS, LOOPS, OurJobs
from bench.processor_time import processor_clock
from bench.queues import TENANTS
from bench.results import Result
from tests.support.database.pgbouncer import PLACES, TRACKS_STATEMENTS, Mode, pgbouncer, version_of

name = "database.pooler"


async def run(seconds: float) -> list[Result]:
    if shutil.which("pgbouncer", path=PLACES) is None:
        sys.stderr.write(f"{name} is left out: PgBouncer is not installed. On Debian: apt-get install pgbouncer\n")
        return []
    modes: list[Mode] = ["session"]
    if version_of("pgbouncer") >= TRACKS_STATEMENTS:
        modes.append("transaction")
    async with AsyncExitStack() as undo:
        direct = await undo.enter_async_context(open_bench_installation(loops=LOOPS))
        installations = {"direct": direct}
        for mode in modes:
            installations[mode] = await undo.enter_async_context(_behind(direct, mode))
        ours = {each: OurJobs(at, await at.add_members(TENANTS), CALLERS) for each, at in installations.items()}
        rates = await take_turns(ours, seconds, processor_clock(direct))
    return [
        Result(
            name=name if mode == "session" else f"{name}.{mode}",
            value=rates[mode].per_second,
            unit="jobs/s",
            ceiling=rates["direct"].per_second,
        )
        for mode in modes
    ]


@asynccontextmanager
async def _behind(direct: BenchInstallation, mode: Mode) -> AsyncIterator[BenchInstallation]:
    """Another installation on the same server, behind a pooler."""
    assert direct.databases.embedded is not None
    dsn = await direct.new_database(f"{mode}_central")
    with tempfile.TemporaryDirectory(prefix="callsheet-pooler-") as directory:
        async with pgbouncer(direct.databases.embedded, Path(directory), mode) as pooler:
            places = {"dsn": pooler.through(dsn)} | ({"direct_dsn": dsn} if mode == "transaction" else {})
            async with open_bench_installation(loops=LOOPS, places=places) as installation:
                yield installation
