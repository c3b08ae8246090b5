"""Users' actions on the candidates of a run: view, compare, kill, approve, explain, replay, export."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import httpx
import pytest
from PIL import Image

from callsheet.app.control_plane import ControlPlane
from callsheet.toolbox.ids import uuid7
from tests.support.http.accounts import People, Person
from tests.support.http.catalog_api import CatalogApi
from tests.support.jobs.core import Core, Member
from tests.support.pipelines.candidate_trees import Tree
from tests.support.waiting import until

SOON = datetime(2100, 1, 1, tzinfo=UTC)


def png(colour: str = "red", side: int = 800) -> bytes:
    target = io.BytesIO()
    Image.new("RGB", (side, side), colour).save(target, "PNG")
    return target.getvalue()


@dataclass(frozen=True, slots=True)
class PausedRun:
    """A person, and a run of theirs that is paused: nothing happens to it by itself."""

    plane: ControlPlane
    client: httpx.AsyncClient
    core: Core
    ann: Person
    tree: Tree

    @classmethod
    async def open(cls, plane: ControlPlane, client: httpx.AsyncClient, **step: Any) -> PausedRun:
        core = Core(plane.databases, plane.rooms.jobs, [])
        ann = await People(plane.rooms.identity.accounts, plane.rooms.identity.keys).user(pool="pool_1")
        member = Member(ann.tenant.id, ann.user.id, await plane.databases.pool("pool_1"))
        await core.credit(member, 100)
        return cls(plane, client, core, ann, await Tree.plant(core, member, status="paused", **step))

    async def ask(self, method: str, path: str, body: Any = None, *, person: Person | None = None) -> httpx.Response:
        content = {} if body is None else {"json": body}
        return await self.client.request(method, path, headers=(person or self.ann).headers, **content)

    async def get(self, path: str) -> Any:
        response = await self.ask("GET", path)
        assert response.status_code == 200, response.text
        return response.json()

    def run(self, path: str) -> str:
        return f"/api/runs/{self.tree.run_id}/{path}"

    async def vote(self, winner: UUID, loser: UUID) -> httpx.Response:
        return await self.ask("POST", self.run("votes"), {"winner_id": str(winner), "loser_id": str(loser)})

    async def file(self, content: bytes, name: str, mime_type: str = "image/png") -> UUID:
        """A file as the acceptance of a candidate leaves it."""
        file_id, step = uuid7(), "base"
        path = f"tenants/{self.ann.tenant.id}/runs/{self.tree.folder}/{step}/{name}"
        await self.plane.rooms.storage.put(path, content, content_type=mime_type)
        async with self.tree.ann.pool.connection() as connection:
            await connection.execute(
                """INSERT INTO files (tenant_id, id, user_id, purpose, status, disk, path, name, mime_type, size,
                   job_id, ready_at) VALUES ($1, $2, $3, 'output', 'ready', $4, $5, $6, $7, $8, $9, now())""",
                *(self.ann.tenant.id, file_id, self.ann.user.id, self.plane.rooms.media.files.disk, path, name),
                *(mime_type, len(content), self.tree.job_id),
            )
        return file_id

    async def thumbnails(self) -> None:
        """All that are due; the plane's own loop may be at one of them."""
        maker, pool = self.plane.rooms.pipelines.guidance.thumbnails, self.tree.ann.pool

        async def all_made() -> bool:
            await maker.make_due(pool, SOON)
            query = "SELECT 1 FROM candidates WHERE run_id = $1 AND thumbnail_due_at IS NOT NULL"
            return not await self.core.rows(pool, query, self.tree.run_id)

        await until(all_made)


@pytest.fixture
async def paused_run(stored_plane: ControlPlane) -> Any:
    """A paused run, with files on local storage, then on S3."""
    async with httpx.AsyncClient(base_url=stored_plane.settings.public_url, trust_env=False, timeout=30) as client:
        yield await PausedRun.open(stored_plane, client)


@pytest.fixture
async def local_paused_run(plane: ControlPlane, client: httpx.AsyncClient) -> PausedRun:
    """A paused run, with files on local storage."""
    return await PausedRun.open(plane, client)


def ids(candidates: list[dict[str, Any]]) -> list[str]:
    return [each["id"] for each in candidates]


async def test_candidates_are_shown_page_by_page_newest_first_by_step_parent_and_status(
    local_paused_run: PausedRun,
) -> None:
    tree = local_paused_run.tree
    bases = [str(await tree.candidate()) for _ in range(5)]
    children = [str(await tree.candidate(UUID(bases[0]))) for _ in range(2)]
    everything = [*children[::-1], *bases[::-1]]
    seen: list[str] = []
    cursor = ""
    while True:
        page = await local_paused_run.get(local_paused_run.run(f"candidates?limit=3{cursor}"))
        seen += ids(page["items"])
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert seen == everything
    # Newest first: by their numbers, not by their ids.
    assert ids((await local_paused_run.get(local_paused_run.run("candidates?step=fix")))["items"]) == children[::-1]
    of_parent = await local_paused_run.get(local_paused_run.run(f"candidates?parent_id={bases[0]}&step=fix"))
    assert ids(of_parent["items"]) == children[::-1]
    assert (await local_paused_run.ask("POST", f"/api/candidates/{bases[0]}/kill")).status_code == 200
    active = await local_paused_run.get(local_paused_run.run("candidates?status=active"))
    assert ids(active["items"]) == bases[:0:-1]
    rejected = await local_paused_run.get(local_paused_run.run("candidates?status=rejected&step=base"))
    assert ids(rejected["items"]) == [bases[0]]


async def test_winners_are_the_best_remaining_candidates_of_the_last_step(local_paused_run: PausedRun) -> None:
    tree = local_paused_run.tree
    base = await tree.candidate()
    middle = await tree.candidate(base)
    elos = [1000, 1040, 990, 1040, 1100]
    leaves = [await tree.candidate(middle, elo=elo) for elo in elos]
    expected = [str(leaves[place]) for place in (4, 1, 3, 0, 2)]
    assert ids(await local_paused_run.get(local_paused_run.run("winners"))) == expected
    assert ids(await local_paused_run.get(local_paused_run.run("winners?limit=2"))) == expected[:2]
    assert ids(await local_paused_run.get(local_paused_run.run("winners?step=base"))) == [str(base)]
    await local_paused_run.ask("POST", f"/api/candidates/{leaves[4]}/kill")
    assert ids(await local_paused_run.get(local_paused_run.run("winners?limit=1"))) == expected[1:2]


async def test_a_vote_changes_both_ratings_and_an_undo_restores_them(local_paused_run: PausedRun) -> None:
    a, b = [await local_paused_run.tree.candidate() for _ in range(2)]
    vote = await local_paused_run.vote(a, b)
    assert vote.status_code == 201, vote.text
    assert vote.json()["elo_change"] == 16
    assert await local_paused_run.tree.elo(a, b) == [1016, 984]
    again = await local_paused_run.vote(a, b)
    assert (again.status_code, again.json()) == (200, vote.json())
    opposite = await local_paused_run.vote(b, a)
    assert (opposite.status_code, opposite.json()["code"]) == (409, "conflict")
    assert ids((await local_paused_run.get(local_paused_run.run("votes")))["items"]) == [vote.json()["id"]]
    address = local_paused_run.run(f"votes/{vote.json()['id']}")
    assert (await local_paused_run.ask("DELETE", address)).status_code == 204
    assert await local_paused_run.tree.elo(a, b) == [1000, 1000]
    assert (await local_paused_run.ask("DELETE", address)).status_code == 404
    assert (await local_paused_run.get(local_paused_run.run("votes")))["items"] == []
    # Once it is taken back, the other one may be preferred.
    assert (await local_paused_run.vote(b, a)).status_code == 201
    assert await local_paused_run.tree.elo(a, b) == [984, 1016]


async def test_undoing_a_vote_keeps_later_votes(local_paused_run: PausedRun) -> None:
    a, b, c = [await local_paused_run.tree.candidate() for _ in range(3)]
    first = (await local_paused_run.vote(a, b)).json()
    second = (await local_paused_run.vote(b, c)).json()
    await local_paused_run.ask("DELETE", local_paused_run.run(f"votes/{first['id']}"))
    assert await local_paused_run.tree.elo(a, b, c) == [1000, 1000 + second["elo_change"], 1000 - second["elo_change"]]


async def test_candidates_that_cannot_be_compared_are_refused_with_the_field_and_the_reason(
    local_paused_run: PausedRun,
) -> None:
    base, other = [await local_paused_run.tree.candidate() for _ in range(2)]
    child = await local_paused_run.tree.candidate(base)
    stranger = await PausedRun.open(local_paused_run.plane, local_paused_run.client)
    theirs = await stranger.tree.candidate()
    for winner, loser, field, reason in (
        (base, base, "loser_id", "two different candidates"),
        (base, child, "loser_id", "different steps"),
        (base, uuid7(), "loser_id", "no such candidate"),
        (theirs, base, "winner_id", "no such candidate"),
    ):
        response = await local_paused_run.vote(winner, loser)
        assert response.status_code == 422, response.text
        assert [error["field"] for error in response.json()["errors"]] == [field]
        assert reason in response.text
    await local_paused_run.ask("POST", f"/api/candidates/{other}/kill")
    rejected = await local_paused_run.vote(base, other)
    assert (rejected.status_code, rejected.json()["code"]) == (409, "wrong_state")
    assert "rejected" in rejected.json()["detail"]
    assert await local_paused_run.tree.elo(base, other) == [1000, 1000]


async def test_pairs_are_offered_until_all_are_compared_and_the_same_seed_repeats_their_order(
    local_paused_run: PausedRun,
) -> None:
    field = {str(await local_paused_run.tree.candidate()) for _ in range(4)}
    one = await local_paused_run.get(local_paused_run.run("pair?seed=5"))
    assert await local_paused_run.get(local_paused_run.run("pair?seed=5")) | {"candidates": []} == one | {
        "candidates": []
    }
    assert ids((await local_paused_run.get(local_paused_run.run("pair?seed=5")))["candidates"]) == ids(
        one["candidates"]
    )
    pairs = set()
    for _ in range(6):
        pair = await local_paused_run.get(local_paused_run.run("pair?step=base"))
        left, right = ids(pair["candidates"])
        pairs.add(frozenset((left, right)))
        assert (await local_paused_run.vote(UUID(left), UUID(right))).status_code == 201
    assert len(pairs) == 6
    assert frozenset().union(*pairs) == field
    assert (await local_paused_run.get(local_paused_run.run("pair")))["candidates"] == []
    unknown = await local_paused_run.ask("GET", local_paused_run.run("pair?step=nowhere"))
    assert unknown.status_code == 422
    assert "base, fix, upscale" in unknown.text


async def test_a_step_is_approved_once_and_only_if_it_requires_an_approval(
    plane: ControlPlane, client: httpx.AsyncClient, local_paused_run: PausedRun
) -> None:
    gated = await PausedRun.open(plane, client, requires_approval=True)
    first = await gated.ask("POST", gated.run("steps/base/approve"))
    assert first.status_code == 200, first.text
    assert (await gated.ask("POST", gated.run("steps/base/approve"))).json() == first.json()
    assert (await gated.ask("POST", gated.run("steps/nowhere/approve"))).status_code == 404
    refused = await local_paused_run.ask("POST", local_paused_run.run("steps/base/approve"))
    assert (refused.status_code, refused.json()["code"]) == (409, "wrong_state")


async def test_a_gallery_has_urls_of_images_and_of_thumbnails(paused_run: PausedRun) -> None:
    large = await paused_run.tree.candidate(file_id=await paused_run.file(png(), "1.png"))
    broken = await paused_run.tree.candidate(file_id=await paused_run.file(b"\x89PNG\r\n\x1a\n and so on", "2.png"))
    clip = await paused_run.tree.candidate(file_id=await paused_run.file(b"ftyp", "3.mp4", "video/mp4"))
    gone = await paused_run.tree.candidate()
    await paused_run.thumbnails()
    shown = {each["id"]: each for each in (await paused_run.get(paused_run.run("candidates")))["items"]}
    thumbnail = shown[str(large)]["thumbnail"]
    assert thumbnail["mime_type"] == "image/webp"
    content = (await paused_run.client.get(thumbnail["url"])).content
    assert Image.open(io.BytesIO(content)).size == (384, 384)
    assert len(content) == thumbnail["size"]
    assert (await paused_run.client.get(shown[str(large)]["file"]["url"])).content == png()
    for each in (broken, clip, gone):
        assert shown[str(each)]["thumbnail"] is None
    assert shown[str(gone)]["file"] is None


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("content", "mime_type", "is_saved"),
    [
        (b"<!doctype html><script>alert(1)</script>", "image/png", False),
        (b'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>', "image/svg+xml", True),
        (png(side=300)[:200], "image/png", False),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n", "image/x-eps", False),
    ],
    ids=["html", "svg", "truncated", "eps"],
)
async def test_a_file_with_the_type_of_an_image_and_other_content_cannot_run(
    paused_run: PausedRun, content: bytes, mime_type: str, is_saved: bool
) -> None:
    poison = await paused_run.tree.candidate(file_id=await paused_run.file(content, "1.png", mime_type))
    good = await paused_run.tree.candidate(file_id=await paused_run.file(png(), "2.png"))
    await paused_run.thumbnails()
    shown = {each["id"]: each for each in (await paused_run.get(paused_run.run("candidates")))["items"]}
    assert shown[str(poison)]["thumbnail"] is None
    assert shown[str(good)]["thumbnail"] is not None
    response = await paused_run.client.get(shown[str(poison)]["file"]["url"])
    assert response.headers["content-type"] == ("application/octet-stream" if is_saved else mime_type)
    assert response.headers.get("content-disposition", "").startswith("attachment") is is_saved
    thumbnail = await paused_run.client.get(shown[str(good)]["thumbnail"]["url"])
    assert thumbnail.headers["content-type"] == "image/webp"


async def test_candidates_and_votes_of_another_run_are_not_reachable_through_a_run(
    local_paused_run: PausedRun,
) -> None:
    other = await PausedRun.open(local_paused_run.plane, local_paused_run.client)
    theirs, rival = [await other.tree.candidate() for _ in range(2)]
    await other.tree.candidate(theirs)
    vote = (await other.vote(theirs, rival)).json()
    mine = [await local_paused_run.tree.candidate() for _ in range(2)]
    assert (await local_paused_run.get(local_paused_run.run(f"candidates?parent_id={theirs}")))["items"] == []
    assert (await local_paused_run.get(local_paused_run.run(f"votes?cursor={vote['id']}")))["items"] == []
    assert (await local_paused_run.ask("DELETE", local_paused_run.run(f"votes/{vote['id']}"))).status_code == 404
    assert (await local_paused_run.get(local_paused_run.run("votes")))["items"] == []
    listed = await local_paused_run.get(local_paused_run.run("candidates?cursor=2147483647"))
    assert {each["id"] for each in listed["items"]} == {str(each) for each in mine}
    assert await other.tree.elo(theirs, rival) == [1016, 984]


async def test_an_export_has_every_file_by_step_and_describes_how_each_was_made(paused_run: PausedRun) -> None:
    red, blue = png("red", 20), png("blue", 20)
    base = await paused_run.tree.candidate(file_id=await paused_run.file(red, "b_1.png"), elo=1010)
    child = await paused_run.tree.candidate(base, file_id=await paused_run.file(blue, "c_2.png"))
    gone = await paused_run.tree.candidate(base, file_id=await paused_run.file(red, "gone.png"))
    await paused_run.plane.rooms.storage.delete(
        f"tenants/{paused_run.ann.tenant.id}/runs/{paused_run.tree.folder}/base/gone.png"
    )
    response = await paused_run.ask("GET", paused_run.run("export"))
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/zip"
    folder = paused_run.tree.folder
    assert f'filename="{folder}.zip"' in response.headers["content-disposition"]
    with zipfile.ZipFile(io.BytesIO(response.content)) as archive:
        assert archive.testzip() is None
        names = [f"{folder}/01-base/b_1.png", f"{folder}/02-fix/c_2.png", f"{folder}/manifest.json"]
        assert archive.namelist() == names
        assert archive.read(names[0]) == red
        assert archive.read(names[1]) == blue
        manifest = json.loads(archive.read(names[2]))
    assert manifest["run"]["id"] == str(paused_run.tree.run_id)
    assert (manifest["run"]["seed"], manifest["run"]["variables"]) == (7, {})
    assert [step["slug"] for step in manifest["steps"]] == ["base", "fix", "upscale"]
    lineage = {each["id"]: each for each in manifest["candidates"]}
    assert list(lineage) == [str(base), str(child), str(gone)]
    assert lineage[str(base)]["file"] == names[0]
    assert lineage[str(base)]["elo"] == 1010
    assert lineage[str(child)]["parent_id"] == str(base)
    assert lineage[str(gone)]["file"] is None
    assert "tenants/" not in json.dumps(manifest)


async def test_an_export_can_omit_rejected_candidates_and_may_be_empty(
    local_paused_run: PausedRun,
) -> None:
    kept = await local_paused_run.tree.candidate(file_id=await local_paused_run.file(png(side=9), "k.png"))
    killed = await local_paused_run.tree.candidate(file_id=await local_paused_run.file(png(side=9), "x.png"))
    await local_paused_run.ask("POST", f"/api/candidates/{killed}/kill")
    content = (await local_paused_run.ask("GET", local_paused_run.run("export"))).content
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        manifest = json.loads(archive.read(f"{local_paused_run.tree.folder}/manifest.json"))
    assert [each["rejection"] for each in manifest["candidates"]] == [None, "killed"]
    content = (await local_paused_run.ask("GET", local_paused_run.run("export?status=active"))).content
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        manifest = json.loads(archive.read(f"{local_paused_run.tree.folder}/manifest.json"))
        assert [each["id"] for each in manifest["candidates"]] == [str(kept)]
        assert len(archive.namelist()) == 2
    empty = await PausedRun.open(local_paused_run.plane, local_paused_run.client)
    with zipfile.ZipFile(io.BytesIO((await empty.ask("GET", empty.run("export"))).content)) as archive:
        assert json.loads(archive.read(archive.namelist()[0]))["candidates"] == []


@pytest.mark.thorough
async def test_an_export_that_the_client_stops_reading_releases_its_files(
    local_paused_run: PausedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = local_paused_run.plane.rooms.storage
    stream, reading = storage.stream, set()

    async def watched(key: str) -> AsyncIterator[bytes]:
        reading.add(key)
        try:
            async for piece in stream(key):
                yield piece
        finally:
            reading.discard(key)

    monkeypatch.setattr(storage, "stream", watched)
    for number in range(2):
        await local_paused_run.tree.candidate(file_id=await local_paused_run.file(b"x" * 40_000_000, f"{number}.png"))
    async with local_paused_run.client.stream(
        "GET", local_paused_run.run("export"), headers=local_paused_run.ann.headers
    ) as response:
        pieces = response.aiter_raw()
        # The first pieces may be headers of the archive, sent before a file is opened.
        while not reading:
            await anext(pieces)
        assert len(reading) == 1
    await until(lambda: not reading)


async def test_an_export_of_more_than_one_page_is_complete(local_paused_run: PausedRun) -> None:
    async with local_paused_run.tree.ann.pool.transaction() as connection:
        await connection.execute(
            """INSERT INTO candidates (tenant_id, id, run_id, number, step_id, position, job_id, output_index, file_id,
               seed, max_children, thumbnail_due_at)
               SELECT $1, gen_random_uuid(), $2, n, $3, 1, $4, n + 100000, gen_random_uuid(), n, 5, NULL
               FROM generate_series(1, 450) n""",
            *(
                local_paused_run.ann.tenant.id,
                local_paused_run.tree.run_id,
                local_paused_run.tree.step_ids[0],
                local_paused_run.tree.job_id,
            ),
        )
    content = (await local_paused_run.ask("GET", local_paused_run.run("export"))).content
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        manifest = json.loads(archive.read(f"{local_paused_run.tree.folder}/manifest.json"))
    assert [each["number"] for each in manifest["candidates"]] == list(range(1, 451))


async def test_admins_see_figures_of_runs_and_an_alert_if_too_many_jobs_of_runs_fail(
    plane: ControlPlane, client: httpx.AsyncClient, local_paused_run: PausedRun
) -> None:
    admin = await People(plane.rooms.identity.accounts, plane.rooms.identity.keys).admin()
    columns = (local_paused_run.ann.tenant.id, local_paused_run.tree.run_id, local_paused_run.tree.step_ids[0])
    async with local_paused_run.tree.ann.pool.transaction() as connection:
        for draw in range(1, 31):
            job = await local_paused_run.core.submit(local_paused_run.tree.ann, cost=0)
            await connection.execute(
                """INSERT INTO candidate_slots (tenant_id, run_id, draw, step_id, position, ordinal, job_id, cost, seed,
                   status, settled_at) VALUES ($1, $2, $4, $3, 1, $4, $5, 0, 1, $6, clock_timestamp())""",
                *(*columns, draw, job.id, "failed" if draw % 2 else "made"),
            )
            await local_paused_run.core.room.cancellation.cancel(local_paused_run.ann.tenant.id, job.id, actor="test")
    metrics = (await local_paused_run.ask("GET", "/api/admin/metrics", person=admin)).json()
    one = next(each for each in metrics["runs"] if each["pool"] == "pool_1")
    assert one["failed"] >= 15
    assert one["completed"] >= 15
    assert one["average_seconds"] >= 0
    found = (await local_paused_run.ask("GET", "/api/admin/alerts", person=admin)).json()["alerts"]
    [alert] = [each for each in found if each["code"] == "failing_runs"]
    assert (alert["subject"], alert["severity"]) == ("pool_1", "warning")
    assert "failed in the last 60 minutes" in alert["message"]


async def test_lineage_shows_how_each_ancestor_was_made_from_the_first_step_on(local_paused_run: PausedRun) -> None:
    base = await local_paused_run.tree.candidate()
    child = await local_paused_run.tree.candidate(base)
    leaf = await local_paused_run.tree.candidate(child)
    lineage = await local_paused_run.get(f"/api/candidates/{leaf}/lineage")
    assert [each["candidate_id"] for each in lineage["ancestors"]] == [str(base), str(child), str(leaf)]
    assert [each["step"]["slug"] for each in lineage["ancestors"]] == ["base", "fix", "upscale"]
    assert lineage["ancestors"][0]["seed"] == (await local_paused_run.tree.row(base))["seed"]


async def test_a_replay_is_an_ordinary_job_of_the_same_graph_and_counts_in_the_budget_of_the_run(
    plane: ControlPlane, client: httpx.AsyncClient, local_paused_run: PausedRun
) -> None:
    catalog_api = await CatalogApi.open(plane, client, People(plane.rooms.identity.accounts, plane.rooms.identity.keys))
    effect = await catalog_api.effect(credits_cost=4)
    video = await catalog_api.video(local_paused_run.ann)
    made = await catalog_api.submit(local_paused_run.ann, effect, video_id=video)
    pool, tenant = local_paused_run.tree.ann.pool, local_paused_run.ann.tenant.id
    query = "SELECT * FROM ai_jobs WHERE tenant_id = $1 AND id = $2"
    [first] = await local_paused_run.core.rows(pool, query, tenant, UUID(made["id"]))
    candidate = await local_paused_run.tree.candidate(job_id=first["id"], output_index=0)
    before = await local_paused_run.tree.run()
    address = f"/api/candidates/{candidate}/replay"
    response = await local_paused_run.ask("POST", address, {"idempotency_key": "once"})
    assert response.status_code == 201, response.text
    job = response.json()
    assert (job["kind"], job["cost"], job["status"]) == ("replay", 4, "queued")
    [row] = await local_paused_run.core.rows(pool, query, tenant, UUID(job["id"]))
    assert row["payload"] == first["payload"]
    assert row["input_file_ids"] == first["input_file_ids"]
    assert row["run_id"] is None
    again = await local_paused_run.ask("POST", address, {"idempotency_key": "once"})
    assert (again.status_code, again.json()["id"]) == (200, job["id"])
    headers = local_paused_run.ann.headers | {"Idempotency-Key": "once"}
    again = await client.post(address, json={}, headers=headers)
    assert (again.status_code, again.json()["id"]) == (200, job["id"])
    after = await local_paused_run.tree.run()
    assert after["spent"] == before["spent"] + 4
    assert {name for name in after if after[name] != before[name]} == {"spent", "updated_at"}
    # A price that was changed meanwhile is today's; a workflow that is switched off takes no jobs.
    deactivated = await catalog_api.call("POST", f"/api/admin/workflows/{effect['workflow']}/deactivate", {})
    assert deactivated.is_success, deactivated.text
    refused = await local_paused_run.ask("POST", address, {})
    assert refused.status_code == 422
    assert "its workflow is switched off" in refused.text
