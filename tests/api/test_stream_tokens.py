"""A token in the URL of a stream: short-lived, for streams only, and valid only as long as its credential."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.identity.access.keys import hash_secret
from callsheet.identity.access.stream_tokens import StreamGrant, StreamTokens
from callsheet.jobs.stream import feeds as feeds_module
from callsheet.plumbing.installation.secrets import master_secret
from callsheet.toolbox.logs import configure_logs
from callsheet.wire.identity import CreateKeyRequest
from tests.support.http.accounts import People, Person, sign_in
from tests.support.http.event_stream import EventStream
from tests.support.http.jobs_api import JobsApi
from tests.support.http.responses import assert_refused

ALL = "/api/ai-jobs/stream"
Token = dict[str, Any]


@pytest.fixture
async def jobs_api(plane: ControlPlane, client: httpx.AsyncClient, people: People) -> JobsApi:
    return await JobsApi.open(plane, client, people)


@pytest.fixture
async def ann(jobs_api: JobsApi) -> Person:
    return await jobs_api.person("pool_2", tokens=1000)


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    configure_logs("debug", "json", stream)
    yield stream
    configure_logs()


async def token_of(jobs_api: JobsApi, person: Person, **body: Any) -> str:
    response = await jobs_api.client.post("/api/stream-tokens", json=body, headers=person.headers)
    assert response.status_code == 201, response.text
    left = datetime.fromisoformat(response.json()["expires_at"]) - datetime.now(UTC)
    assert timedelta(seconds=200) < left <= timedelta(seconds=300)
    return str(response.json()["token"])


async def head(jobs_api: JobsApi, path: str, **query: Any) -> httpx.Response:
    """The head of an answer that may be a stream."""
    async with jobs_api.client.stream("GET", path, params=query) as response:
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            await response.aread()
    return response


async def test_a_page_watches_with_a_token_alone_and_resumes_by_its_url(jobs_api: JobsApi, ann: Person) -> None:
    job = await jobs_api.submit(ann)
    path = f"/api/ai-jobs/{job['id']}/stream"
    token = await token_of(jobs_api, ann)
    async with jobs_api.client.stream("GET", path, params={"token": token}) as response:
        assert response.status_code == 200
        seen = await EventStream(response).next(2)
    assert [event.id for event in seen] == [1, 2]
    # An EventSource that is opened anew cannot send the header; one that reconnects sends it, and it is newer.
    async with jobs_api.client.stream("GET", path, params={"token": token, "last_event_id": 1}) as response:
        assert [event.id for event in await EventStream(response).next(1)] == [2]
    await jobs_api.post_as(ann, f"/api/ai-jobs/{job['id']}/cancel")
    header = {"last-event-id": "2"}
    async with jobs_api.client.stream(
        "GET", path, params={"token": token, "last_event_id": 1}, headers=header
    ) as response:
        assert [event.id for event in await EventStream(response).rest()] == [3]
    assert (await head(jobs_api, ALL, token=token)).status_code == 200


async def test_a_token_for_one_job_opens_no_other_stream(jobs_api: JobsApi, ann: Person) -> None:
    one, two = [await jobs_api.submit(ann) for _ in range(2)]
    token = await token_of(jobs_api, ann, job_id=one["id"])
    assert (await head(jobs_api, f"/api/ai-jobs/{one['id']}/stream", token=token)).status_code == 200
    assert_refused(await head(jobs_api, f"/api/ai-jobs/{two['id']}/stream", token=token), 403, "forbidden")
    assert_refused(await head(jobs_api, ALL, token=token), 403, "forbidden")


async def test_only_streams_accept_a_stream_token(jobs_api: JobsApi, ann: Person) -> None:
    token = await token_of(jobs_api, ann)
    bearer = {"authorization": f"Bearer {token}"}
    job = await jobs_api.submit(ann)
    for path in ("/api/me", "/api/ai-jobs", f"/api/ai-jobs/{job['id']}", "/api/wallet", "/api/keys"):
        assert_refused(await jobs_api.client.get(path, params={"token": token}), 401, "not_authenticated")
        assert_refused(await jobs_api.client.get(path, headers=bearer), 401, "not_authenticated")
    again = await jobs_api.client.post("/api/stream-tokens", params={"token": token}, json={})
    assert_refused(again, 401, "not_authenticated")
    assert_refused(await jobs_api.client.get(ALL, headers=bearer), 401, "not_authenticated")


async def test_other_users_cannot_watch_a_job_and_get_no_token_for_it(jobs_api: JobsApi, ann: Person) -> None:
    job = await jobs_api.submit(ann)
    path = f"/api/ai-jobs/{job['id']}/stream"
    for other in (await jobs_api.person("pool_1"), await jobs_api.person(tenant_of=ann)):
        assert_refused(await head(jobs_api, path, token=await token_of(jobs_api, other)), 404, "not_found")
        refused = await jobs_api.client.post("/api/stream-tokens", json={"job_id": job["id"]}, headers=other.headers)
        assert_refused(refused, 404, "not_found")
    assert_refused(await jobs_api.client.post("/api/stream-tokens", json={}), 401, "not_authenticated")


async def test_an_expired_or_changed_token_is_refused(plane: ControlPlane, jobs_api: JobsApi, ann: Person) -> None:
    tokens = StreamTokens(master_secret(plane.settings))
    past = datetime.now(UTC) - timedelta(seconds=1)
    expired = tokens.issue(StreamGrant("api_key", hash_secret(ann.key), past))
    problem = assert_refused(await head(jobs_api, ALL, token=expired), 401, "not_authenticated")
    assert "expired" in problem["detail"]
    assert expired not in problem["detail"]
    good = await token_of(jobs_api, ann)
    middle = len(good) // 3
    changed = [
        good[:-1] + ("A" if good[-1] != "A" else "B"),
        good[:middle] + ("A" if good[middle] != "A" else "B") + good[middle + 1 :],
        good.replace(".", ""),
        good.removeprefix("cst_"),
        StreamTokens(b"another secret").issue(
            StreamGrant("api_key", hash_secret(ann.key), datetime(2100, 1, 1, tzinfo=UTC))
        ),
        "",
        "cst_.",
        "ü",
    ]
    for token in changed:
        assert_refused(await head(jobs_api, ALL, token=token), 401, "not_authenticated")
    # Not even together with what would be enough alone: the caller means the token.
    mixed = await jobs_api.client.get(ALL, params={"token": changed[0]}, headers=ann.headers)
    assert_refused(mixed, 401, "not_authenticated")


async def test_a_token_ends_with_its_key_and_so_does_an_open_stream(
    plane: ControlPlane, jobs_api: JobsApi, ann: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds_module, "RECHECK_SECONDS", 0.05)
    created = await plane.rooms.identity.keys.create(ann.user.id, CreateKeyRequest(name="page"))
    page = Person(ann.user, ann.tenant, created.key)
    token = await token_of(jobs_api, page)
    async with jobs_api.client.stream("GET", ALL, params={"token": token}) as response:
        stream = EventStream(response)
        await stream.comment("open")
        assert (await jobs_api.client.delete(f"/api/keys/{created.id}", headers=ann.headers)).status_code == 200
        assert await stream.rest() == []
    assert_refused(await head(jobs_api, ALL, token=token), 401, "not_authenticated")


async def test_a_token_of_a_session_ends_with_the_session(jobs_api: JobsApi, ann: Person) -> None:
    signed_in = await sign_in(jobs_api.client, ann)
    csrf = {"x-csrf-token": signed_in.json()["csrf_token"]}
    assert_refused(await jobs_api.client.post("/api/stream-tokens", json={}), 403, "csrf_failed")
    created = await jobs_api.client.post("/api/stream-tokens", json={}, headers=csrf)
    jobs_api.client.cookies.clear()
    token = created.json()["token"]
    assert (await head(jobs_api, ALL, token=token)).status_code == 200
    jobs_api.client.cookies.update(signed_in.cookies)
    assert (await jobs_api.client.post("/api/auth/logout", headers=csrf)).status_code == 204
    jobs_api.client.cookies.clear()
    assert_refused(await head(jobs_api, ALL, token=token), 401, "not_authenticated")


async def test_no_token_is_logged(jobs_api: JobsApi, ann: Person, logged: io.StringIO) -> None:
    token = await token_of(jobs_api, ann)
    assert (await head(jobs_api, ALL, token=token)).status_code == 200
    assert_refused(await head(jobs_api, ALL, token=f"{token}x"), 401, "not_authenticated")
    assert_refused(await head(jobs_api, "/api/me", token=token), 401, "not_authenticated")
    assert "/api/ai-jobs/stream" in logged.getvalue()
    assert token[:20] not in logged.getvalue()
    assert token not in (await jobs_api.client.get("/metrics")).text
