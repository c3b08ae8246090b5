"""Public links: who creates them, what they show to anyone, and everything that ends them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.jobs.show.descriptions import JobDescription
from callsheet.library.public_links import SQL, Openings
from callsheet.media.previews.maker import PreviewMaker
from callsheet.toolbox.ids import secret_token, uuid7
from callsheet.wire.identity import Role
from tests.api.conftest import Started
from tests.support.http.accounts import People
from tests.support.http.media_api import CLIP, MediaApi
from tests.support.http.responses import assert_refused
from tests.support.media.previews import clip

PROMPT = "a fox, for my mother only"
MADE = CLIP + b"made"


@pytest.fixture
async def ann(plane: ControlPlane) -> AsyncIterator[MediaApi]:
    async with MediaApi.opened(plane) as media_api:
        yield media_api


async def finished(ann: MediaApi, *outputs: bytes) -> str:
    """A job on an upload of ann's that has made these."""
    file = (await ann.confirm(await ann.uploaded(name="holiday in Rome.mp4"))).json()
    described = JobDescription("Claymation", ("holiday in Rome.mp4",), {"prompt": PROMPT}, "video")
    job = await ann.jobs_api.core.submit(ann.member, input_file_ids=(file["id"],), description=described)
    await ann.complete(await ann.jobs_api.start(), *outputs)
    return str(job.id)


async def shared(ann: MediaApi, job_id: str, **wanted: Any) -> dict[str, Any]:
    response = await ann.ask("POST", f"/api/ai-jobs/{job_id}/shares", wanted)
    assert response.status_code == 201, response.text
    link: dict[str, Any] = response.json()
    return link


def path_of(link: dict[str, Any]) -> str:
    return "/api/shares/" + str(link["url"]).rpartition("/")[2]


async def opened(ann: MediaApi, link: dict[str, Any]) -> httpx.Response:
    """Requested by a person without an account."""
    return await ann.jobs_api.client.get(path_of(link))


async def test_anyone_with_the_link_sees_the_result_and_nothing_else(ann: MediaApi, plane: ControlPlane) -> None:
    job_id = await finished(ann, MADE, MADE + b"second")
    link = await shared(ann, job_id)
    assert link["url"].startswith(f"{plane.settings.public_url}/share/csp_")
    response = await opened(ann, link)
    assert response.status_code == 200
    assert response.headers["cache-control"] == "no-store"
    assert "noindex" in response.headers["x-robots-tag"]
    assert response.headers["referrer-policy"] == "no-referrer"
    found = response.json()
    assert (found["title"], found["prompt"], found["after"]["medium"]) == ("Claymation", None, "video")
    for private in (job_id, str(ann.person.user.id), str(ann.tenant_id), ann.person.user.email, "Rome", PROMPT):
        assert private not in response.text
        assert private.replace("-", "") not in response.text
    for file, content in ((found["before"], CLIP), (found["after"], MADE), (found["more"][0], MADE + b"second")):
        media = await ann.jobs_api.client.get(file["url"])
        assert (media.status_code, media.content, media.headers["content-type"]) == (200, content, "video/mp4")
        assert media.headers["cache-control"] == "no-store"
        assert "sandbox" in media.headers["content-security-policy"]
        assert "Rome" not in str(media.headers)
        assert str(ann.tenant_id) not in str(media.headers)
    part = await ann.jobs_api.client.get(found["after"]["url"], headers={"range": "bytes=4-7"})
    assert (part.status_code, part.content) == (206, MADE[4:8])


@pytest.mark.thorough
async def test_posters_of_a_link_end_with_the_link(ann: MediaApi, tmp_path: Path) -> None:
    job_id = await finished(ann, clip(tmp_path / "after.mp4", 24, width=640, height=480))
    others = "UPDATE file_previews SET status = 'none', due_at = NULL WHERE status = 'pending' AND tenant_id <> $1"
    await ann.jobs_api.core.rows(ann.pool, others, ann.tenant_id)
    maker = PreviewMaker(lambda: [ann.pool], ann.plane.rooms.storage, ann.plane.settings.storage.backend)
    while await maker.make_due(ann.pool, datetime.now(UTC) + timedelta(seconds=1)):
        pass
    link = await shared(ann, job_id)
    found = (await opened(ann, link)).json()
    # The upload is not a video that could be decoded.
    assert found["before"]["poster_url"] is None
    after = found["after"]
    assert (after["width"], after["height"], after["duration_seconds"]) == (640, 480, 2.0)
    poster = await ann.jobs_api.client.get(after["poster_url"])
    assert (poster.status_code, poster.headers["content-type"]) == (200, "image/webp")
    await ann.ask("DELETE", f"/api/ai-jobs/{job_id}/shares/{link['id']}")
    assert_refused(await ann.jobs_api.client.get(after["poster_url"]), 404, "not_found")


async def test_the_owner_decides_whether_a_link_shows_prompt_and_input(ann: MediaApi) -> None:
    job_id = await finished(ann, MADE)
    link = await shared(ann, job_id, show_prompt=True, show_input=False)
    found = (await opened(ann, link)).json()
    assert (found["prompt"], found["before"]) == (PROMPT, None)
    assert_refused(await ann.jobs_api.client.get(path_of(link) + "/media/before"), 404, "not_found")


async def test_links_are_listed_and_revoked_by_their_owner_only(ann: MediaApi) -> None:
    job_id = await finished(ann, MADE)
    first, second = await shared(ann, job_id), await shared(ann, job_id)
    address = f"/api/ai-jobs/{job_id}/shares"
    colleague, stranger = await ann.colleague(), await ann.stranger("pool_2")
    for other in (colleague, stranger):
        assert_refused(await other.ask("POST", address, {}), 404, "not_found")
        assert_refused(await other.ask("GET", address), 404, "not_found")
        assert_refused(await other.ask("DELETE", f"{address}/{first['id']}"), 404, "not_found")
        assert (await other.ask("GET", "/api/shares")).json()["items"] == []
    listed = (await ann.ask("GET", address)).json()["items"]
    assert [each["id"] for each in listed] == [second["id"], first["id"]]
    token = first["url"].rpartition("/")[2]
    assert token not in str(listed)
    rows = await ann.jobs_api.core.rows(ann.plane.databases.central, "SELECT * FROM share_links")
    assert token not in str(rows)
    for _ in range(2):
        assert (await ann.ask("DELETE", f"{address}/{first['id']}")).status_code == 204
    assert_refused(await opened(ann, first), 404, "not_found")
    assert_refused(await ann.jobs_api.client.get(path_of(first) + "/media/after"), 404, "not_found")
    assert (await opened(ann, second)).status_code == 200
    assert [each["id"] for each in (await ann.ask("GET", "/api/shares")).json()["items"]] == [second["id"]]
    assert_refused(await ann.ask("DELETE", f"{address}/{uuid7()}"), 404, "not_found")
    lines = await ann.jobs_api.core.rows(
        ann.plane.databases.central, "SELECT action FROM audit_logs WHERE subject_id = $1 ORDER BY id", job_id
    )
    assert [line["action"] for line in lines] == ["share.create", "share.create", "share.revoke"]


@pytest.mark.few_forms
@pytest.mark.parametrize("end", ["expired", "job", "file", "user", "tenant"])
async def test_a_link_ends_when_it_expires_or_its_job_file_owner_or_tenant_is_gone(
    ann: MediaApi, people: People, end: str
) -> None:
    job_id = await finished(ann, MADE)
    link = await shared(ann, job_id)
    admin = (await people.admin()).headers
    client = ann.jobs_api.client
    assert (await opened(ann, link)).status_code == 200
    if end == "expired":
        async with ann.plane.databases.central.connection() as connection:
            await connection.execute(
                "UPDATE share_links SET created_at = now() - interval '2 days', expires_at = now() - interval '1 s'"
                " WHERE id = $1",
                link["id"],
            )
    elif end == "job":
        assert (await ann.ask("DELETE", f"/api/ai-jobs/{job_id}")).status_code == 204
    elif end == "file":
        [made] = [row["id"] for row in await ann.file_rows() if row["purpose"] == "output"]
        assert (await ann.ask("DELETE", f"/api/files/{made}")).status_code == 204
    elif end == "user":
        await client.post(f"/api/admin/users/{ann.person.user.id}/disable", headers=admin)
    else:
        await client.post(f"/api/admin/tenants/{ann.tenant_id}/disable", headers=admin)
    assert_refused(await opened(ann, link), 404, "not_found")
    assert_refused(await client.get(path_of(link) + "/media/after"), 404, "not_found")
    if end in ("user", "tenant"):
        named = f"users/{ann.person.user.id}" if end == "user" else f"tenants/{ann.tenant_id}"
        await client.post(f"/api/admin/{named}/enable", headers=admin)
        assert (await opened(ann, link)).status_code == 200


@pytest.mark.few_forms
@pytest.mark.parametrize(
    "token",
    [secret_token("csp"), "csp_short", "css_" + "a" * 43, "%00", "a" * 101, "..%2Fme"],
    ids=["random", "short", "other_prefix", "nul", "long", "path"],
)
async def test_a_guessed_token_is_not_found(ann: MediaApi, token: str) -> None:
    for path in (f"/api/shares/{token}", f"/api/shares/{token}/media/after"):
        response = await ann.jobs_api.client.get(path)
        assert response.status_code in (400, 404, 422)
        assert "after" not in response.json()


async def test_a_job_that_is_unfinished_or_has_no_file_cannot_be_shared(ann: MediaApi) -> None:
    waiting = (await ann.jobs_api.submit(ann.person))["id"]
    assert_refused(await ann.ask("POST", f"/api/ai-jobs/{waiting}/shares", {}), 409, "wrong_state")
    await ann.complete(await ann.jobs_api.start())
    assert_refused(await ann.ask("POST", f"/api/ai-jobs/{waiting}/shares", {}), 409, "wrong_state")


async def test_a_viewer_makes_no_links(ann: MediaApi, people: People) -> None:
    viewer = await people.user(ann.person.tenant, Role.VIEWER)
    response = await ann.jobs_api.client.post(f"/api/ai-jobs/{uuid7()}/shares", json={}, headers=viewer.headers)
    assert_refused(response, 403, "forbidden")


async def test_views_of_a_link_are_counted_after_the_request(ann: MediaApi) -> None:
    job_id = await finished(ann, MADE)
    link = await shared(ann, job_id)
    for _ in range(3):
        await opened(ann, link)
    [keeper] = [loop for loop in ann.plane.loops if isinstance(loop, Openings)]
    await keeper.tick(datetime.now(UTC))
    [listed] = (await ann.ask("GET", f"/api/ai-jobs/{job_id}/shares")).json()["items"]
    assert listed["opened"] == 3
    assert listed["last_opened_at"] > listed["created_at"]


async def test_links_are_swept_a_day_after_their_end(ann: MediaApi) -> None:
    job_id = await finished(ann, MADE)
    kept, ended = await shared(ann, job_id), await shared(ann, job_id)
    await ann.ask("DELETE", f"/api/ai-jobs/{job_id}/shares/{ended['id']}")
    keeper = Openings(ann.plane.databases)
    query = "SELECT id::text FROM share_links WHERE job_id = $1"

    async def ids(now: datetime) -> set[str]:
        await keeper.tick(now)
        return {row["id"] for row in await ann.jobs_api.core.rows(ann.plane.databases.central, query, job_id)}

    assert await ids(datetime.now(UTC)) == {kept["id"], ended["id"]}
    assert await ids(datetime.now(UTC) + timedelta(days=2)) == {kept["id"]}


async def test_a_user_may_make_a_hundred_links_per_hour(ann: MediaApi) -> None:
    job_id = await finished(ann, MADE)
    async with ann.plane.databases.central.transaction() as connection:
        for _ in range(100):
            await SQL["create_share"].row(
                connection,
                id=uuid7(),
                token_hash=uuid7().bytes * 2,
                tenant_id=ann.tenant_id,
                user_id=ann.person.user.id,
                job_id=uuid7(),
                shows_prompt=False,
                shows_input=False,
                days=1,
            )
    assert (await ann.ask("POST", f"/api/ai-jobs/{job_id}/shares", {})).json()["code"] == "quota_exceeded"


@pytest.mark.thorough
async def test_the_operator_limits_the_life_of_links_and_switches_them_off(started: Started) -> None:
    async with started(sharing={"link_days": 3, "max_link_days": 5}) as (plane, _), MediaApi.opened(plane) as ann:
        job_id = await finished(ann, MADE)
        link = await shared(ann, job_id)
        life = datetime.fromisoformat(link["expires_at"]) - datetime.fromisoformat(link["created_at"])
        assert timedelta(days=3) - timedelta(seconds=1) < life < timedelta(days=3, seconds=1)
        response = await ann.ask("POST", f"/api/ai-jobs/{job_id}/shares", {"expires_in_days": 6})
        assert_refused(response, 422, "invalid_request", "expires_in_days")
    async with started(sharing={"enabled": False}) as (plane, client):
        assert_refused(await client.get(path_of(link)), 404, "not_found")
        response = await client.post(f"/api/ai-jobs/{job_id}/shares", json={}, headers=ann.person.headers)
        assert_refused(response, 403, "forbidden")
