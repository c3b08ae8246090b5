"""The charts of operators: a million finished jobs of thirty days, 10,000 workers, and jobs that end at this moment.

`web.overview` is how long a chart takes; beside it, one row of the same table by key. `web.overview.keeping` is what
counting and sampling take of one processor, in this process and in PostgreSQL.
"""

from __future__ import annotations

import statistics
import time
from datetime import UTC, datetime

from bench.installation import BenchInstallation, open_bench_installation
from bench.processor import processor_clock
from bench.results import Result
from callsheet.statistics.keeper import StatisticsKeeper
from callsheet.statistics.series import SQL, Series
from callsheet.wire.statistics import TimeRange

name = "web.overview"
JOBS, WORKERS, WORKFLOWS = 1_000_000, 10_000, 20
RANGES: tuple[TimeRange, ...] = ("1h", "24h", "30d")
TARGET_MS = 100.0
# Of one processor.
TARGET_PERCENT = 1.0
TICKS = 12
short = {"jobs": 5_000, "workers": 50}
# In the order of their ends, as they are written. The last thousandth ended within the last minutes.
FILL = """
INSERT INTO dispatch_history (dispatch_id, tenant_id, tenant_job_id, charge_cycle, workflow_id, stage, provider,
    concurrency_identifier, priority, kind, status, attempts, requeues, lease_seq, past_lease_tokens, created_at,
    finished_at, queue_wait_seconds, duration_seconds)
SELECT n, $1, gen_random_uuid(), 1, ($2::bigint[])[1 + n % cardinality($2)], 'production', 'self_hosted', '', 0,
    'effect', CASE WHEN n % 50 = 0 THEN 'failed' ELSE 'completed' END, 1, 0, 1, '{}', now(),
    now() - (1 - n::float8 / $3) * interval '30 days', n % 97, 5 + n % 31
FROM generate_series(1, $3::integer) n ORDER BY n
"""
ADD_WORKFLOWS = """
INSERT INTO workflows (slug, name) SELECT 'chart-' || n, 'Chart' FROM generate_series(1, $1::integer) n RETURNING id
"""
ADD_WORKERS = """
INSERT INTO comfyui_workers (
    worker_id, registration_source, stage, session_id, token_hash, last_seen_at)
SELECT 'bench-' || n, 'workflows', 'production', n, sha256(n::text::bytea), clock_timestamp() + interval '1 hour'
FROM generate_series(1, $1::integer) n
"""


async def run(seconds: float, jobs: int = JOBS, workers: int = WORKERS) -> list[Result]:
    async with open_bench_installation() as installation:
        await _fill(installation, jobs, workers)
        keeper = StatisticsKeeper(installation.databases, days=400)
        while await keeper.tick(datetime.now(UTC)):
            pass
        results = [await _read(installation, time_range, seconds / len(RANGES)) for time_range in RANGES]
        return [*results, await _keep(installation)]


async def _read(installation: BenchInstallation, time_range: TimeRange, seconds: float) -> Result:
    series, workflow = Series(installation.databases), None
    ours: list[float] = []
    plain: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(ours) < 4:
        started = time.perf_counter()
        await series.read(time_range, workflow)
        ours.append((time.perf_counter() - started) * 1000)
        started = time.perf_counter()
        async with installation.central.ordinary() as connection:
            await SQL["find_workflow"].value(connection, slug="none")
        plain.append((time.perf_counter() - started) * 1000)
    return Result(
        name=f"{name}.{time_range}",
        value=statistics.median(ours),
        unit="ms",
        ceiling=statistics.median(plain),
        target=TARGET_MS,
        p50_ms=statistics.median(ours),
        p99_ms=sorted(ours)[int(len(ours) * 0.99)],
    )


async def _keep(installation: BenchInstallation) -> Result:
    """The processor time of a tick, compared with the time until the next one. Each is the first of its minute, which
    samples as well: five of six are cheaper."""
    clock = processor_clock(installation)
    spent = []
    for _ in range(TICKS):
        keeper = StatisticsKeeper(installation.databases, days=400)
        before = clock()
        await keeper.tick(datetime.now(UTC))
        spent.append(clock() - before)
    percent = statistics.mean(spent) / StatisticsKeeper.interval_seconds * 100
    return Result(name=f"{name}.keeping", value=percent, unit="% of a core", target=TARGET_PERCENT)


async def _fill(installation: BenchInstallation, jobs: int, workers: int) -> None:
    async with installation.central.transaction() as connection:
        rows = await connection.fetch(ADD_WORKFLOWS, WORKFLOWS)
        workflow_ids = [row["id"] for row in rows]
        await connection.execute("SET LOCAL statement_timeout = 0")
        await connection.execute(FILL, installation.tenant_id, workflow_ids, jobs, timeout=600)
        await connection.execute(ADD_WORKERS, workers, timeout=600)
    async with installation.central.connection() as connection:
        await connection.execute("SELECT brin_summarize_new_values('history_by_end')")
        await connection.execute("ANALYZE dispatch_history", timeout=600)
