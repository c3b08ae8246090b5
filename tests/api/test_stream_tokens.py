"""A token in the URL of a stream: short-lived, for streams only, and no longer good than what it was made with."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from callsheet.app import ControlPlane
from callsheet.identity.keys import hash_secret
from callsheet.identity.stream_tokens import StreamGrant, StreamTokens
from callsheet.jobs import feeds as feeds_module
from callsheet.plumbing.secrets import master_secret
from callsheet.toolbox.logs import configure_logs
from callsheet.wire.identity import CreateKeyRequest
from tests.support.answers import assert_refused
from tests.support.event_stream import EventStream
from tests.support.jobs import Desk
from tests.support.people import People, Person, sign_in

ALL = "/api/ai-jobs/stream"
Token = dict[str, Any]


@pytest.fixture
async def desk(plane: ControlPlane, client: httpx.AsyncClient, people: People) -> Desk:
    return await Desk.open(plane, client, people)


@pytest.fixture
async def ann(desk: Desk) -> Person:
    return await desk.person("pool_2", tokens=1000)


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    configure_logs("debug", "json", stream)
    yield stream
    configure_logs()


async def token_of(desk: Desk, person: Person, **body: Any) -> str:
    answer = await desk.client.post("/api/stream-tokens", json=body, headers=person.headers)
    assert answer.status_code == 201, answer.text
    left = datetime.fromisoformat(answer.json()["expires_at"]) - datetime.now(UTC)
    assert timedelta(seconds=200) < left <= timedelta(seconds=300)
    return str(answer.json()["token"])


async def head(desk: Desk, path: str, **query: Any) -> httpx.Response:
    """The head of an answer that may be a stream."""
    async with desk.client.stream("GET", path, params=query) as answer:
        if not answer.headers.get("content-type", "").startswith("text/event-stream"):
            await answer.aread()
    return answer


async def test_a_page_watches_with_a_token_alone_and_resumes_by_its_url(desk: Desk, ann: Person) -> None:
    job = await desk.submit(ann)
    path = f"/api/ai-jobs/{job['id']}/stream"
    token = await token_of(desk, ann)
    async with desk.client.stream("GET", path, params={"token": token}) as answer:
        assert answer.status_code == 200
        seen = await EventStream(answer).next(2)
    assert [event.id for event in seen] == [1, 2]
    # An EventSource that is opened anew cannot send the header; one that reconnects sends it, and it is newer.
    async with desk.client.stream("GET", path, params={"token": token, "last_event_id": 1}) as answer:
        assert [event.id for event in await EventStream(answer).next(1)] == [2]
    await desk.post_as(ann, f"/api/ai-jobs/{job['id']}/cancel")
    header = {"last-event-id": "2"}
    async with desk.client.stream("GET", path, params={"token": token, "last_event_id": 1}, headers=header) as answer:
        assert [event.id for event in await EventStream(answer).rest()] == [3]
    assert (await head(desk, ALL, token=token)).status_code == 200


async def test_a_token_for_one_job_opens_no_other_stream(desk: Desk, ann: Person) -> None:
    one, two = [await desk.submit(ann) for _ in range(2)]
    token = await token_of(desk, ann, job_id=one["id"])
    assert (await head(desk, f"/api/ai-jobs/{one['id']}/stream", token=token)).status_code == 200
    assert_refused(await head(desk, f"/api/ai-jobs/{two['id']}/stream", token=token), 403, "forbidden")
    assert_refused(await head(desk, ALL, token=token), 403, "forbidden")


async def test_nothing_but_streams_takes_a_token(desk: Desk, ann: Person) -> None:
    token = await token_of(desk, ann)
    bearer = {"authorization": f"Bearer {token}"}
    job = await desk.submit(ann)
    for path in ("/api/me", "/api/ai-jobs", f"/api/ai-jobs/{job['id']}", "/api/wallet", "/api/keys"):
        assert_refused(await desk.client.get(path, params={"token": token}), 401, "not_authenticated")
        assert_refused(await desk.client.get(path, headers=bearer), 401, "not_authenticated")
    again = await desk.client.post("/api/stream-tokens", params={"token": token}, json={})
    assert_refused(again, 401, "not_authenticated")
    assert_refused(await desk.client.get(ALL, headers=bearer), 401, "not_authenticated")


async def test_others_cannot_watch_and_cannot_ask_for_a_token(desk: Desk, ann: Person) -> None:
    job = await desk.submit(ann)
    path = f"/api/ai-jobs/{job['id']}/stream"
    for other in (await desk.person("pool_1"), await desk.person(tenant_of=ann)):
        assert_refused(await head(desk, path, token=await token_of(desk, other)), 404, "not_found")
        asked = await desk.client.post("/api/stream-tokens", json={"job_id": job["id"]}, headers=other.headers)
        assert_refused(asked, 404, "not_found")
    assert_refused(await desk.client.post("/api/stream-tokens", json={}), 401, "not_authenticated")


async def test_an_expired_or_changed_token_is_refused(plane: ControlPlane, desk: Desk, ann: Person) -> None:
    tokens = StreamTokens(master_secret(plane.settings))
    past = datetime.now(UTC) - timedelta(seconds=1)
    expired = tokens.issue(StreamGrant("api_key", hash_secret(ann.key), past))
    problem = assert_refused(await head(desk, ALL, token=expired), 401, "not_authenticated")
    assert "expired" in problem["detail"]
    assert expired not in problem["detail"]
    good = await token_of(desk, ann)
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
        assert_refused(await head(desk, ALL, token=token), 401, "not_authenticated")
    # Not even together with what would be enough alone: the caller means the token.
    mixed = await desk.client.get(ALL, params={"token": changed[0]}, headers=ann.headers)
    assert_refused(mixed, 401, "not_authenticated")


async def test_a_token_ends_with_its_key_and_so_does_an_open_stream(
    plane: ControlPlane, desk: Desk, ann: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds_module, "LOOK_ANYWAY_SECONDS", 0.05)
    created = await plane.keys.create(ann.user.id, CreateKeyRequest(name="page"))
    page = Person(ann.user, ann.tenant, created.key)
    token = await token_of(desk, page)
    async with desk.client.stream("GET", ALL, params={"token": token}) as answer:
        stream = EventStream(answer)
        await stream.comment("open")
        assert (await desk.client.delete(f"/api/keys/{created.id}", headers=ann.headers)).status_code == 200
        assert await stream.rest() == []
    assert_refused(await head(desk, ALL, token=token), 401, "not_authenticated")


async def test_a_token_of_a_session_ends_with_the_session(desk: Desk, ann: Person) -> None:
    signed_in = await sign_in(desk.client, ann)
    csrf = {"x-csrf-token": signed_in.json()["csrf_token"]}
    assert_refused(await desk.client.post("/api/stream-tokens", json={}), 403, "csrf_failed")
    created = await desk.client.post("/api/stream-tokens", json={}, headers=csrf)
    desk.client.cookies.clear()
    token = created.json()["token"]
    assert (await head(desk, ALL, token=token)).status_code == 200
    desk.client.cookies.update(signed_in.cookies)
    assert (await desk.client.post("/api/auth/logout", headers=csrf)).status_code == 204
    desk.client.cookies.clear()
    assert_refused(await head(desk, ALL, token=token), 401, "not_authenticated")


async def test_no_token_is_logged(desk: Desk, ann: Person, logged: io.StringIO) -> None:
    token = await token_of(desk, ann)
    assert (await head(desk, ALL, token=token)).status_code == 200
    assert_refused(await head(desk, ALL, token=f"{token}x"), 401, "not_authenticated")
    assert_refused(await head(desk, "/api/me", token=token), 401, "not_authenticated")
    assert "/api/ai-jobs/stream" in logged.getvalue()
    assert token[:20] not in logged.getvalue()
    assert token not in (await desk.client.get("/metrics")).text
