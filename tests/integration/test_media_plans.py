"""The cost of a statement of the media room does not grow with the tables: it finds its rows by an index (G11)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from callsheet.media.files import SQL as MEDIA
from callsheet.media.previews.maker import SQL as PREVIEWS
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.databases import open_databases
from callsheet.plumbing.database.sql import Connection
from callsheet.plumbing.embedded import EmbeddedPostgres
from tests.support.database.full_databases import TENANT, fill_pool, job_id, numbered, user_id, without_autovacuum
from tests.support.database.installation import installation, isolate
from tests.support.database.plans import Seen, explain, pairs, prepare

pytestmark = pytest.mark.thorough

SQL = {**MEDIA, **PREVIEWS}
ROWS = 30_000
TABLES = ("ai_jobs", "files", "videos", "job_progress", "output_sweeps", "upload_sweeps", "file_previews")
FIRST_ID = UUID(int=0)
WHENS = ["planned while empty", "analyzed"]
# A user with a tenth of all videos, none of them new.
AWAY = user_id(5000)
# Every job of the crowd has an upload, an output and a video of the same number; but of a thousand uploads one is
# deleted, and one is pending: they have no video. All of it came evenly in the last ten years.
FILL = f"""
    INSERT INTO files (tenant_id, id, user_id, purpose, status, disk, path, name, mime_type, size, created_at, ready_at,
        expires_at, deleted_at)
    SELECT tenant_id, {numbered("dddddddd", "n")}, user_id, 'upload', CASE WHEN pending THEN 'pending' ELSE 'ready' END,
        'local', 'upload-' || n, 'clip.mp4', 'video/mp4', 7, now() - interval '10 years' * (1 - n / {ROWS}.0),
        CASE WHEN NOT pending THEN now() END, CASE WHEN pending THEN now() + interval '1 day' END,
        CASE WHEN deleted THEN now() END
    FROM (SELECT *, n % 1000 = 7 AS pending, n % 1000 = 8 AS deleted
          FROM (SELECT *, row_number() OVER (ORDER BY id) AS n FROM ai_jobs) jobs) j;
    INSERT INTO files (tenant_id, id, user_id, purpose, status, disk, path, name, mime_type, size, job_id, created_at,
        ready_at)
    SELECT tenant_id, {numbered("eeeeeeee", "n")}, user_id, 'output', 'ready', 'local', 'output-' || n, 'result.mp4',
        'video/mp4', 7, id, now() - interval '10 years' * (1 - n / {ROWS}.0), now()
    FROM (SELECT *, row_number() OVER (ORDER BY id) AS n FROM ai_jobs) j;
    INSERT INTO videos (tenant_id, id, user_id, status, original_file_id, processed_file_id, job_id, created_at)
    SELECT tenant_id, {numbered("ffffffff", "n")},
        CASE WHEN n BETWEEN 1000 AND 3999 THEN '{AWAY}'::uuid ELSE user_id END, status, {numbered("dddddddd", "n")},
        {numbered("eeeeeeee", "n")}, id, now() - interval '10 years' * (1 - n / {ROWS}.0)
    FROM (SELECT *, row_number() OVER (ORDER BY id) AS n FROM ai_jobs) j WHERE n % 1000 NOT IN (7, 8);
    UPDATE ai_jobs j SET video_id = ('ffffffff' || substr(id::text, 9))::uuid;
    INSERT INTO job_progress (tenant_id, job_id, user_id, charge_cycle, lease_seq)
    SELECT tenant_id, id, user_id, 1, 1 FROM ai_jobs WHERE status = 'processing';
    INSERT INTO output_sweeps (tenant_id, job_id, since)
    SELECT tenant_id, id, now() - interval '1 day' * random() FROM ai_jobs WHERE id::text LIKE '%00';
    INSERT INTO upload_sweeps (tenant_id, file_id, user_id, disk, since)
    SELECT tenant_id, id, user_id, disk, now() - interval '1 day' * random() FROM files WHERE id::text LIKE '%00';
    INSERT INTO file_previews (tenant_id, file_id, kind, status, due_at, width, height)
    SELECT tenant_id, id, 'video', CASE WHEN due THEN 'pending' ELSE 'ready' END,
        CASE WHEN due THEN now() - interval '1 day' * random() END, CASE WHEN NOT due THEN 9 END,
        CASE WHEN NOT due THEN 9 END
    FROM (SELECT *, id::text LIKE '%7' AS due FROM files) f;
"""


def upload(number: int) -> str:
    return f"dddddddd-0000-7000-8000-{number:012x}"


def output(number: int) -> str:
    return f"eeeeeeee-0000-7000-8000-{number:012x}"


def video(number: int) -> str:
    return f"ffffffff-0000-7000-8000-{number:012x}"


def cases() -> Mapping[str, tuple[str, dict[str, object], set[str], int]]:
    """By name: the statement, its arguments, the indexes it must use, the most blocks it may touch."""
    tenant = {"tenant_id": TENANT}
    user = {**tenant, "user_id": user_id(1)}
    # n % 200 == 0: processing.
    one = {**tenant, "user_id": user_id(2 + 200 // 10 % 999), "video_id": video(200)}
    page: dict[str, object] = {**user, "before": None, "status": None, "limit": 21}
    new: dict[str, object] = {**user, "file_id": upload(ROWS * 2), "disk": "local", "path": "new", "name": "new.mp4"}
    new |= {"mime_type": "video/mp4", "size": 7, "sha256": None, "keep_seconds": 60, "max_rows": 100}
    new |= {"part_bytes": None, "resume_key": None}
    resumed = {**user, "resume_key": "video.mp4", "disk": "local", "keep_seconds": 60}
    sweep = {"now": datetime.now(UTC) + timedelta(days=30), "disk": "local", "limit": 20}
    old = {"now": None, "days": 3600, "limit": 20}
    return {
        "files_by_ids": (
            "files_by_ids",
            {**tenant, "file_ids": [upload(5), output(9)]},
            {"files_pkey", "file_previews_pkey"},
            30,
        ),
        "due_previews": (
            "due_previews",
            {"now": None, "kind": "video", "after": FIRST_ID, "limit": 20},
            {"previews_due", "files_pkey"},
            30,
        ),
        "due_previews, of a kind that nobody has": (
            "due_previews",
            {"now": None, "kind": "image", "after": FIRST_ID, "limit": 20},
            {"previews_due"},
            10,
        ),
        "claim_preview": (
            "claim_preview",
            {**tenant, "file_id": upload(7), "due_at": datetime.now(UTC), "seconds": 9},
            {"file_previews_pkey"},
            30,
        ),
        "keep_preview": (
            "keep_preview",
            {**tenant, "file_id": upload(7), "width": 9, "height": 9, "duration_seconds": 1.0, "has_clip": True},
            {"file_previews_pkey", "files_pkey"},
            60,
        ),
        "give_up_preview": ("give_up_preview", {**tenant, "file_id": upload(7)}, {"file_previews_pkey"}, 40),
        "postpone_preview": (
            "postpone_preview",
            {**tenant, "file_id": upload(7), "seconds": 9},
            {"file_previews_pkey"},
            60,
        ),
        "create_upload": ("create_upload", new, {"files_awaited"}, 120),
        "resume_upload": ("resume_upload", resumed, {"one_upload_per_resume_key"}, 10),
        "find_parts": ("find_parts", {**tenant, "file_id": upload(7)}, {"files_pkey"}, 10),
        "confirm_upload": (
            "confirm_upload",
            {**tenant, "file_id": upload(7), "path": "accepted", "sha256": None},
            {"files_pkey"},
            80,
        ),
        "shown_files": (
            "shown_files",
            {**tenant, "file_ids": [upload(5), output(9)]},
            {"videos_of_original", "videos_of_processed"},
            30,
        ),
        "mark_deleted": ("mark_deleted", {**tenant, "file_ids": [upload(5), output(9)]}, {"files_pkey"}, 120),
        "outputs_of_video": (
            "outputs_of_video",
            {**tenant, "video_id": video(200)},
            {"jobs_of_video", "files_of_job"},
            30,
        ),
        "find_video": ("find_video", one, set(), 10),
        "get_video": ("get_video", one, {"ai_jobs_pkey"}, 20),
        "preview_of_video": ("preview_of_video", one, {"ai_jobs_pkey"}, 20),
        "outputs_of_jobs": (
            "outputs_of_jobs",
            {**tenant, "job_ids": [job_id(200), job_id(201)], "output_bytes": 1024, "max_bytes": 2**22},
            {"ai_jobs_pkey"},
            30,
        ),
        "list_videos": ("list_videos", page, {"videos_of_user", "ai_jobs_pkey"}, 260),
        # Not by the tenant's videos from the newest on.
        "list_videos of a user who has been away": (
            "list_videos",
            {**page, "user_id": AWAY},
            {"videos_of_user"},
            260,
        ),
        "list_videos, far back": ("list_videos", {**page, "before": video(500)}, {"videos_of_user"}, 260),
        "delete_video": ("delete_video", {**tenant, "video_id": video(200)}, {"videos_pkey"}, 30),
        "mark_expired": ("mark_expired", sweep, {"files_to_sweep"}, 1000),
        "find_deleted": ("find_deleted", {**sweep, "grace_seconds": 4500}, {"files_to_sweep"}, 50),
        "forget_files": (
            "forget_files",
            {"tenant_ids": [TENANT], "file_ids": [upload(8)]},
            {"files_pkey"},
            60,
        ),
        "find_output_sweeps": (
            "find_output_sweeps",
            {"now": None, "grace_seconds": 4500, "limit": 20},
            {"ai_jobs_pkey"},
            300,
        ),
        "find_upload_sweeps": (
            "find_upload_sweeps",
            {"now": None, "grace_seconds": 4500, "disk": "local", "limit": 20},
            set(),
            300,
        ),
        "known_paths": ("known_paths", {"paths": ["output-5", "none"]}, {"one_file_per_path"}, 30),
        "find_old_videos": ("find_old_videos", old, {"videos_by_age"}, 200),
        # Three for each of the files that are old enough, of which nearly all are kept for their videos here.
        "find_old_files": ("find_old_files", old, {"files_by_age"}, 5000),
        "files_in_use": ("files_in_use", {**user, "file_ids": [upload(5)]}, set(), 30),
    }


NAMES = list(cases())


@pytest.fixture(scope="module")
async def seen(
    postgres: EmbeddedPostgres, templates_in_both_orders: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[dict[tuple[str, str], Seen]]:
    home = tmp_path_factory.mktemp("media_crowd")
    found: dict[tuple[str, str], Seen] = {}
    with pytest.MonkeyPatch.context() as monkeypatch:
        isolate(monkeypatch, home)
        async with installation(postgres, templates_in_both_orders, home) as settings:
            databases = await open_databases(settings)
            pool = await databases.pool("pool_1")
            await without_autovacuum(pool, *TABLES)
            async with pool.connection() as connection:
                await plan(connection)
                await fill(pool)
                await measure(connection, found, WHENS[0])
                await connection.execute("; ".join(f"DEALLOCATE case_{number}" for number in range(len(NAMES))))
                await connection.execute("ANALYZE")
                await plan(connection)
                await measure(connection, found, WHENS[1])
            yield found
            await databases.close()


async def plan(connection: Connection) -> None:
    for number, (statement, values, _, _) in enumerate(cases().values()):
        await prepare(connection, f"case_{number}", SQL[statement].text)
        await explained(connection, number, statement, values)


async def measure(connection: Connection, found: dict[tuple[str, str], Seen], when: str) -> None:
    for number, (name, (statement, values, _, _)) in enumerate(cases().items()):
        found[name, when] = await explained(connection, number, statement, values)


async def explained(connection: Connection, number: int, statement: str, values: Mapping[str, object]) -> Seen:
    transaction = connection.transaction()
    await transaction.start()
    try:
        if statement == "create_upload":
            # The tenant comes with the crowd, and the first time it is explained before.
            await connection.execute("SET LOCAL session_replication_role = replica")
        arguments = [values[parameter] for parameter in SQL[statement].parameters]
        return await explain(connection, f"case_{number}", arguments)
    finally:
        await transaction.rollback()


async def fill(pool: Database) -> None:
    await fill_pool(pool, ROWS)
    async with pool.transaction() as connection:
        await connection.execute("SET LOCAL session_replication_role = replica; SET LOCAL statement_timeout = 0")
        await connection.execute("SET LOCAL enable_seqscan = on; SET LOCAL enable_hashjoin = on")
        await connection.execute(FILL, timeout=600)


@pytest.mark.parametrize(
    ("name", "when"), pairs({name: SQL[statement].text for name, (statement, *_) in cases().items()}, WHENS)
)
async def test_g11_a_statement_of_the_media_room_finds_its_rows_by_their_index(
    seen: dict[tuple[str, str], Seen], name: str, when: str
) -> None:
    _, _, indexes, max_buffers = cases()[name]
    assert seen[name, when].scanned & set(TABLES) == set()
    assert indexes <= seen[name, when].indexes
    assert seen[name, when].buffers <= max_buffers
