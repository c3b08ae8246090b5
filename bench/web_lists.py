"""The list of a user's jobs, as the library page requests it: 10,000 of a million jobs are the user's, spread among
those of others. Beside each: one page of the same user by key, without filters."""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable
from uuid import UUID

import asyncpg

from bench.installation import BenchInstallation, open_bench_installation
from bench.processes import fresh_home
from bench.results import Result
from callsheet.catalog.effects import Effects
from callsheet.identity.access.principal import Principal
from callsheet.library.lists import JobLists
from callsheet.library.search import Filters
from callsheet.media.files import Files
from callsheet.media.previews.urls import PreviewUrls
from callsheet.media.storage import open_storage
from callsheet.media.storage.owner import StorageOwner
from callsheet.operate.all_jobs.filters import ResolvedFilter
from callsheet.operate.all_jobs.lists import AllJobs
from callsheet.operate.all_jobs.names import Names
from callsheet.plumbing.installation.secrets import master_secret
from callsheet.settings import load_settings
from callsheet.wire.identity import Role
from callsheet.wire.jobs import JobListFilter
from callsheet.wire.library import LibraryFilter
from callsheet.wire.operate.all_jobs import JobFilter
from tests.support.database.room_statements import statements_of_room

JOBS_SQL = statements_of_room("jobs")

name = "web.lists"
JOBS, SHARE, LIMIT = 1_000_000, 100, 50
TARGET_MS = 100.0
WARM_UP = 3
short = {"jobs": 5_000}
# A hundredth of all jobs is the user's. Prompts have 300 characters, payloads a kilobyte; one job in a thousand of the
# user's has a word that no other has.
FILL = """
WITH filled AS (
    INSERT INTO ai_jobs (tenant_id, id, user_id, kind, status, lease_seq, event_seq, cost, workflow_id, stage, provider,
        lifetime_seconds, payload, deadline_at, completed_at, created_at, submitted_at, medium, input_file_ids,
        output_file_id, error, outcome, outcome_cycle)
    SELECT $1::uuid, ('01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid,
        CASE WHEN n % $3::integer = 0 THEN $2::uuid
            ELSE ('bbbbbbbb-0000-7000-8000-' || lpad(to_hex(n % 1000), 12, '0'))::uuid END,
        'effect', status, 1, 3, 5, 1, 'production', 'self_hosted', 86400,
        jsonb_build_object('workflow', (SELECT string_agg(md5((n + i)::text), '') FROM generate_series(1, 32) i)),
        now() + interval '1 day', CASE WHEN status <> 'processing' THEN now() END, now(), now(),
        CASE WHEN n % 300 = 0 THEN 'image' ELSE 'video' END,
        ARRAY[('cccccccc-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid],
        CASE WHEN status = 'completed' THEN ('dddddddd-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid END,
        CASE WHEN status = 'failed' THEN '{"type": "engine_error", "message": "It broke."}'::jsonb END,
        CASE WHEN status <> 'processing' THEN status END, CASE WHEN status <> 'processing' THEN 1 END
    FROM generate_series($4::integer, $5::integer) n CROSS JOIN LATERAL (
        SELECT CASE WHEN n % 5000 = 0 THEN 'failed' WHEN n % 400000 = 0 THEN 'processing' ELSE 'completed' END AS status
    ) kind
    ORDER BY n
    RETURNING tenant_id, user_id, id, ('x' || right(id::text, 8))::bit(32)::integer AS n
)
INSERT INTO job_descriptions (tenant_id, user_id, job_id, title, input_name, prompt, search_text, sent)
SELECT tenant_id, user_id, id, 'Claymation', 'clip-' || n || '.mp4', words.text,
    'claymation clip-' || n || '.mp4 ' || words.text, jsonb_build_object('prompt', words.text)
FROM filled CROSS JOIN LATERAL (
    SELECT left('a fox of clay walks over the moon ' || md5(n::text) || md5((n + 1)::text) || md5((n + 2)::text) ||
        CASE WHEN n % 100000 = 0 THEN ' unicorn ' ELSE ' ' END || md5((n + 3)::text) || md5((n + 4)::text) ||
        md5((n + 5)::text), 300) AS text
) words
"""
FILES = """
INSERT INTO files (tenant_id, id, user_id, purpose, status, disk, path, name, mime_type, size, job_id, ready_at)
SELECT $1::uuid, (prefix || '-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, $2::uuid, purpose, 'ready', 'local',
    'tenants/bench/' || prefix || n, 'clip-' || n || '.mp4', 'video/mp4', 1000,
    CASE WHEN purpose = 'output' THEN ('01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid END, now()
FROM generate_series($3::integer, $4::integer, $3::integer) n,
    (VALUES ('cccccccc', 'upload'), ('dddddddd', 'output')) AS kind (prefix, purpose)
"""
AT_ONCE = 50_000


async def run(seconds: float, jobs: int = JOBS) -> list[Result]:
    async with open_bench_installation() as installation:
        [user_id] = await installation.add_users(1)
        await _fill(installation, user_id, jobs)
        principal = _principal(installation, user_id)
        with fresh_home() as home:
            settings = load_settings(home=home)
            secret = master_secret(settings)
            storage = open_storage(settings, secret, StorageOwner(installation.databases))
            try:
                urls = PreviewUrls(secret)
                effects = Effects(installation.databases, storage, urls, ())
                lists = JobLists(
                    installation.databases, effects, Files(installation.databases, storage, settings, urls)
                )
                all_jobs = AllJobs(installation.databases, Names(installation.databases, effects), effects)
                return await _measure(installation, lists, all_jobs, principal, seconds)
            finally:
                await storage.close()


async def _measure(
    installation: BenchInstallation, lists: JobLists, all_jobs: AllJobs, principal: Principal, seconds: float
) -> list[Result]:
    middle = UUID("01900000-0000-7000-8000-000000080000")

    async def plain() -> None:
        async with installation.pool.connection() as connection:
            await JOBS_SQL["list_jobs"].rows(
                connection,
                tenant_id=principal.tenant_id,
                user_id=principal.user_id,
                before=None,
                **JobListFilter().columns,
                limit=LIMIT + 1,
            )

    def page(filters: Filters, cursor: UUID | None = None) -> Callable[[], Awaitable[object]]:
        return lambda: lists.page(principal, filters, cursor, LIMIT)

    def of(words: str, **wanted: object) -> Filters:
        return Filters(LibraryFilter.model_validate({"q": words, **wanted}))

    def of_all(**wanted: object) -> Callable[[], Awaitable[object]]:
        resolved = ResolvedFilter(JobFilter.model_validate(wanted), searches_texts=True)
        return lambda: all_jobs.page(resolved, None, LIMIT)

    requests: dict[str, Callable[[], Awaitable[object]]] = {
        "": page(Filters()),
        ".far": page(Filters(), middle),
        ".search": page(of("unicorn")),
        ".nothing": page(of("clay nowhere")),
        ".filters": page(of("moon fox", status=["failed"], medium=["image"])),
        ".counts": lambda: lists.counts(principal, of("fox")),
        # Requests of operators: the jobs of all tenants.
        ".all": of_all(),
        ".all.failed": of_all(status=["failed"]),
        ".all.nothing": of_all(q="clay nowhere"),
        ".all.totals": lambda: all_jobs.totals(ResolvedFilter(JobFilter())),
    }
    results = []
    for kind, ask in requests.items():
        ours, peer = await _timed(ask, plain, seconds / len(requests))
        results.append(
            Result(
                name=name + kind,
                value=statistics.median(ours),
                unit="ms",
                ceiling=statistics.median(peer),
                target=TARGET_MS,
                p50_ms=statistics.median(ours),
                p99_ms=sorted(ours)[int(len(ours) * 0.99)],
            )
        )
    return results


async def _timed(
    ask: Callable[[], Awaitable[object]], plain: Callable[[], Awaitable[object]], seconds: float
) -> tuple[list[float], list[float]]:
    ours: list[float] = []
    peer: list[float] = []
    for _ in range(WARM_UP):
        await ask()
        await plain()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(ours) < WARM_UP:
        for call, times in ((ask, ours), (plain, peer)):
            started_at = time.perf_counter()
            await call()
            times.append((time.perf_counter() - started_at) * 1000)
    return ours, peer


async def _fill(installation: BenchInstallation, user_id: UUID, jobs: int) -> None:
    async with installation.pool.transaction() as connection:
        await connection.execute("SET LOCAL session_replication_role = replica; SET LOCAL statement_timeout = 0")
        for first in range(1, jobs + 1, AT_ONCE):
            last = min(first + AT_ONCE - 1, jobs)
            await connection.execute(FILL, installation.tenant_id, user_id, SHARE, first, last, timeout=600)
        await connection.execute(FILES, installation.tenant_id, user_id, SHARE, jobs, timeout=600)
    await _vacuum(installation.pool.dsn)


async def _vacuum(dsn: str) -> None:
    """Does what autovacuum does when 5 % of the table is new."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("VACUUM (ANALYZE) ai_jobs, job_descriptions, files", timeout=600)
    finally:
        await connection.close()


def _principal(installation: BenchInstallation, user_id: UUID) -> Principal:
    return Principal(
        user_id=user_id,
        tenant_id=installation.tenant_id,
        tenant="bench",
        pool=installation.pool.name,
        email="bench@example.com",
        name="",
        role=Role.USER,
        signed_in_with="api_key",
    )
