"""Jobs and files from before lists could show and find them are described, and get previews, behind everything else."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.jobs.operate.description_backfill import DescriptionBackfill
from callsheet.media.previews.backfill import PreviewBackfill
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.failpoints import Failpoint
from callsheet.wire.errors import Unavailable
from tests.support.http.accounts import People, Person
from tests.support.http.catalog_api import CatalogApi
from tests.support.jobs.crashes import crashed_at
from tests.support.jobs.race_control import paused_at

BEFORE = """
    DELETE FROM backfills;
    DELETE FROM job_descriptions WHERE tenant_id = '{tenant}';
    DELETE FROM file_previews WHERE tenant_id = '{tenant}';
    UPDATE ai_jobs SET medium = NULL WHERE tenant_id = '{tenant}';
    INSERT INTO backfills (name, tenant_id) VALUES ('job_descriptions', '{tenant}'), ('file_previews', '{tenant}')
"""


@pytest.fixture
async def catalog_api(plane: ControlPlane, client: httpx.AsyncClient, people: People) -> CatalogApi:
    return await CatalogApi.open(plane, client, people)


@pytest.fixture
async def ann(catalog_api: CatalogApi) -> Person:
    return await catalog_api.person()


@pytest.fixture
async def pool(plane: ControlPlane) -> Database:
    return await plane.databases.pool("pool_1")


class Descriptions(DescriptionBackfill):
    """In steps of two jobs."""

    batch = 2


class Previews(PreviewBackfill):
    batch = 2


@pytest.fixture
def descriptions(plane: ControlPlane, pool: Database) -> Descriptions:
    return Descriptions(lambda: [pool], plane.catalog)


async def execute(pool: Database, query: str, *values: object) -> list[dict[str, Any]]:
    async with pool.connection() as connection:
        if not values:
            await connection.execute(query)
            return []
        return [dict(row) for row in await connection.fetch(query, *values)]


async def undo(pool: Database, ann: Person) -> None:
    """As her rows are right after the migration: nothing described, no preview, all of it to be gone through."""
    [row] = await execute(pool, "SELECT DISTINCT tenant_id FROM files WHERE user_id = $1", ann.user.id)
    await execute(pool, BEFORE.format(tenant=row["tenant_id"]))


async def descriptions_of(pool: Database, ann: Person) -> dict[UUID, dict[str, Any]]:
    query = """SELECT d.job_id, d.title, d.input_name, d.prompt, d.search_text, j.medium
               FROM job_descriptions d JOIN ai_jobs j ON j.tenant_id = d.tenant_id AND j.id = d.job_id
               WHERE d.user_id = $1"""
    return {row.pop("job_id"): row for row in await execute(pool, query, ann.user.id)}


async def test_the_backfill_makes_older_jobs_searchable_by_their_words(
    catalog_api: CatalogApi, ann: Person, pool: Database, descriptions: Descriptions
) -> None:
    effect = await catalog_api.effect(name="Claymation")
    for number in range(3):
        file_id = await catalog_api.file(ann, name=f"Fox {number}.mp4")
        await catalog_api.submit(
            ann, effect, input_file_id=file_id, input_payload={"prompt": f"A badger, {number} moons"}
        )
    await catalog_api.submit(
        ann, effect, input_file_id=file_id, input_payload={"prompt": "by the sea", "style": "pastel"}
    )
    written = await descriptions_of(pool, ann)
    assert len(written) == 4
    await undo(pool, ann)
    while await descriptions.step(pool):
        pass
    assert await descriptions_of(pool, ann) == written
    found = await catalog_api.shown(ann, "/api/library/jobs?q=badger+moons&medium=video")
    assert len(found["items"]) == 3


async def test_a_backfill_survives_a_crash_and_two_control_planes_do_it_once(
    catalog_api: CatalogApi, ann: Person, pool: Database, descriptions: Descriptions
) -> None:
    effect = await catalog_api.effect()
    for _ in range(5):
        await catalog_api.submit(ann, effect, input_file_id=await catalog_api.file(ann))
    await undo(pool, ann)
    for _ in range(2):
        assert await crashed_at(Failpoint.BACKFILL_READ_BEFORE_WRITE, descriptions.step(pool))
    assert await descriptions_of(pool, ann) == {}
    async with paused_at(Failpoint.BACKFILL_READ_BEFORE_WRITE, descriptions.step(pool)) as slow:
        assert await descriptions.step(pool)
        assert len(await descriptions_of(pool, ann)) == 2
    await slow
    assert len(await descriptions_of(pool, ann)) == 2
    # It ends by itself, and asks the database no more.
    while await descriptions.step(pool):
        pass
    assert len(await descriptions_of(pool, ann)) == 5
    assert await execute(pool, "SELECT FROM backfills WHERE name = $1", "job_descriptions") == []


async def test_the_backfill_writes_no_words_of_a_job_that_is_deleted_meanwhile(
    catalog_api: CatalogApi, ann: Person, pool: Database, descriptions: Descriptions
) -> None:
    job = await catalog_api.submit(ann, await catalog_api.effect(), input_file_id=await catalog_api.file(ann))
    assert (await catalog_api.call("POST", f"/api/ai-jobs/{job['id']}/cancel", person=ann)).is_success
    await undo(pool, ann)
    async with paused_at(Failpoint.BACKFILL_READ_BEFORE_WRITE, descriptions.step(pool)) as late:
        assert (await catalog_api.call("DELETE", f"/api/ai-jobs/{job['id']}", person=ann)).is_success
    await late
    assert await descriptions_of(pool, ann) == {}


async def test_a_job_of_a_deleted_effect_is_found_by_the_name_of_its_file(
    catalog_api: CatalogApi, ann: Person, pool: Database, descriptions: Descriptions
) -> None:
    effect = await catalog_api.effect(name="Claymation")
    payload = {"prompt": "a badger"}
    job = await catalog_api.submit(
        ann, effect, input_file_id=await catalog_api.file(ann, name="Fox.mp4"), input_payload=payload
    )
    await catalog_api.call("PATCH", f"/api/admin/effects/{effect['slug']}", {"is_published": False})
    await undo(pool, ann)
    while await descriptions.step(pool):
        pass
    [row] = (await descriptions_of(pool, ann)).values()
    assert (row["title"], row["prompt"], row["search_text"]) == ("Claymation", None, "claymation fox.mp4")
    assert (await catalog_api.shown(ann, "/api/library/jobs?q=fox"))["items"][0]["id"] == job["id"]


async def test_a_backfill_waits_for_unavailable_storage_but_not_for_a_deleted_graph(
    catalog_api: CatalogApi, ann: Person, plane: ControlPlane, pool: Database, descriptions: Descriptions
) -> None:
    job = await catalog_api.submit(
        ann, await catalog_api.effect(name="Claymation"), input_file_id=await catalog_api.file(ann)
    )
    await undo(pool, ann)

    async def away(*_: object) -> Any:
        raise Unavailable("Storage does not respond.")

    async def gone(*_: object) -> Any:
        return None

    # What is remembered of the graph would answer for storage.
    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(type(plane.catalog.payloads), "find_graph", away)
        with pytest.raises(Unavailable):
            await descriptions.step(pool)
        assert await descriptions_of(pool, ann) == {}
        broken.setattr(type(plane.catalog.payloads), "find_graph", gone)
        while await descriptions.step(pool):
            pass
    found = await descriptions_of(pool, ann)
    assert found[UUID(job["id"])]["title"] == "Claymation"
    assert found[UUID(job["id"])]["prompt"] is None


async def test_older_files_get_previews_after_newer_files(catalog_api: CatalogApi, ann: Person, pool: Database) -> None:
    files = [await catalog_api.file(ann) for _ in range(5)]
    await undo(pool, ann)
    newer = await catalog_api.file(ann)
    backfill = Previews(lambda: [pool])
    while await backfill.step(pool):
        pass
    query = "SELECT file_id FROM file_previews WHERE status = 'pending' AND kind = $1 ORDER BY due_at DESC"
    due = [str(row["file_id"]) for row in await execute(pool, query, "video")]
    # Files of other tests that share the pool may be due as well.
    assert [file_id for file_id in due if file_id in {newer, *files}] == [newer, *reversed(files)]
    assert await execute(pool, "SELECT FROM backfills WHERE name = $1", "file_previews") == []
