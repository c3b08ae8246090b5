"""Server-sent events over real HTTP: live, resumed by Last-Event-ID, across a restart, and only for their owner (G9,
G6)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any, cast

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.jobs.stream import feeds as feeds_module
from callsheet.jobs.stream.positions import START
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.sql import Connection
from callsheet.wire.identity import CreateKeyRequest
from callsheet.wire.money.wallet import Wallet
from tests.api.conftest import Started
from tests.support.database.lost_tails import lost_tail
from tests.support.http.accounts import People, Person, sign_in
from tests.support.http.event_stream import EventStream, opened
from tests.support.http.jobs_api import JobsApi
from tests.support.http.responses import assert_refused
from tests.support.jobs.core import report
from tests.support.waiting import until

ALL = "/api/ai-jobs/stream"


@pytest.fixture
async def jobs_api(plane: ControlPlane, client: httpx.AsyncClient, people: People) -> JobsApi:
    return await JobsApi.open(plane, client, people)


@pytest.fixture
async def ann(jobs_api: JobsApi) -> Person:
    return await jobs_api.person("pool_2", tokens=1000)


async def test_a_job_is_watched_live_to_its_end(jobs_api: JobsApi, ann: Person) -> None:
    job = await jobs_api.submit(ann)
    address = f"/api/ai-jobs/{job['id']}/stream"
    async with opened(jobs_api.client, ann, address) as stream:
        assert stream.response.status_code == 200
        assert stream.response.headers["content-type"].startswith("text/event-stream")
        assert stream.response.headers["cache-control"] == "no-store"
        seen = await stream.next(2)
        started = await jobs_api.start()
        seen += await stream.next(1)
        await jobs_api.core.complete(started)
        # The stream ends by itself.
        seen += await stream.rest()
    assert [(event.id, event.name, event.to_status) for event in seen] == [
        (1, "job.created", "pending"),
        (2, "job.transition", "queued"),
        (3, "job.transition", "processing"),
        (4, "job.transition", "completed"),
    ]
    assert [event.data for event in seen] == (await jobs_api.get(ann, f"/api/ai-jobs/{job['id']}/events")).json()[
        "items"
    ]
    async with opened(jobs_api.client, ann, address, last_event_id=4) as stream:
        assert (stream.response.status_code, await stream.response.aread()) == (204, b"")
    # A number that was never given out is as good as the last one.
    async with opened(jobs_api.client, ann, address, last_event_id=10**18 - 1) as stream:
        assert stream.response.status_code == 204


@pytest.mark.parametrize("seen", [0, 1, 2, 3])
async def test_a_stream_resumes_after_the_last_received_event(jobs_api: JobsApi, ann: Person, seen: int) -> None:
    job = await jobs_api.submit(ann)
    await jobs_api.core.complete(await jobs_api.start())
    async with opened(jobs_api.client, ann, f"/api/ai-jobs/{job['id']}/stream", last_event_id=seen) as stream:
        assert [event.id for event in await stream.rest()] == [1, 2, 3, 4][seen:]


async def test_the_stream_of_a_user_has_all_jobs_and_starts_now_or_at_a_given_event(
    jobs_api: JobsApi, ann: Person
) -> None:
    first = await jobs_api.submit(ann)
    stranger = await jobs_api.person(tenant_of=ann, tokens=10)
    async with opened(jobs_api.client, ann, ALL) as stream:
        await jobs_api.submit(stranger)
        second = await jobs_api.submit(ann)
        started = await jobs_api.start()
        seen = await stream.next(3)
    assert [(event.id, event.data["job_id"], event.to_status) for event in seen] == [
        (3, second["id"], "pending"),
        (4, second["id"], "queued"),
        (5, first["id"], "processing"),
    ]
    await jobs_api.core.complete(started)
    async with opened(jobs_api.client, ann, ALL, last_event_id=4) as stream:
        assert [(event.id, event.to_status) for event in await stream.next(2)] == [(5, "processing"), (6, "completed")]
    async with opened(jobs_api.client, ann, ALL, last_event_id=0) as stream:
        assert [event.id for event in await stream.next(6)] == [1, 2, 3, 4, 5, 6]
    async with opened(jobs_api.client, ann, ALL, last_event_id=10**18 - 1) as stream:
        # Not waiting for a number that may never come.
        third = await jobs_api.submit(ann)
        [event] = await stream.next(1)
        assert (event.id, event.data["job_id"]) == (7, third["id"])


async def test_a_client_that_has_seen_lost_events_is_reset_and_goes_on(jobs_api: JobsApi, ann: Person) -> None:
    pool = await jobs_api.core.databases.pool(ann.tenant.pool)
    job = await jobs_api.submit(ann)
    started = await jobs_api.start()
    own = f"/api/ai-jobs/{job['id']}/stream"
    async with lost_tail(pool, jobs_api.core.databases.central) as lose:
        await jobs_api.core.complete(started)
        async with opened(jobs_api.client, ann, ALL, last_event_id=0) as stream:
            seen = (await stream.next(4))[-1]
        async with opened(jobs_api.client, ann, own) as stream:
            of_job = (await stream.rest())[-1]
        await lose()
    assert (seen.to_status, of_job.to_status) == ("completed", "completed")
    # The same numbers are given out for another end.
    await jobs_api.core.fail(started)
    async with opened(jobs_api.client, ann, ALL, last_event_id=seen.position) as stream:
        [reset] = await stream.next(1)
        assert (reset.id, reset.name) == (4, "reset")
        assert "Read the jobs again" in reset.data["reason"]
    async with opened(jobs_api.client, ann, ALL, last_event_id=reset.position) as stream:
        later = await jobs_api.submit(ann)
        [event] = await stream.next(1)
        assert event.data["job_id"] == later["id"]
    async with opened(jobs_api.client, ann, own, last_event_id=of_job.position) as stream:
        again = await stream.rest()
    assert [(event.id, event.name) for event in again[:2]] == [(0, "reset"), (1, "job.created")]
    assert [event.to_status for event in again[1:]] == ["pending", "queued", "processing", "failed"]
    # One who has seen the last event of now is done.
    async with opened(jobs_api.client, ann, own, last_event_id=again[-1].position) as stream:
        assert stream.response.status_code == 204


@pytest.mark.few_forms
@pytest.mark.parametrize("given", ["x", "-1", "1.5", "1-", "1-x", f"1-{10**17}", str(10**18)])
@pytest.mark.parametrize("which", ["job", "all"])
async def test_an_invalid_last_event_id_is_refused(jobs_api: JobsApi, ann: Person, given: str, which: str) -> None:
    path = ALL if which == "all" else f"/api/ai-jobs/{(await jobs_api.submit(ann))['id']}/stream"
    response = await jobs_api.client.get(path, headers=ann.headers | {"last-event-id": given})
    assert_refused(response, 422, "invalid_request", "header.last-event-id")


async def test_a_stream_requires_authentication(jobs_api: JobsApi) -> None:
    assert_refused(await jobs_api.client.get(ALL), 401, "not_authenticated")


@pytest.mark.parametrize("which", ["all", "one"])
async def test_g6_streams_that_a_revoked_key_opened_send_nothing_more(
    plane: ControlPlane, jobs_api: JobsApi, ann: Person, which: str
) -> None:
    job = await jobs_api.submit(ann)
    created = await plane.rooms.identity.keys.create(ann.user.id, CreateKeyRequest(name="lost"))
    lost = Person(ann.user, ann.tenant, created.key)
    path = ALL if which == "all" else f"/api/ai-jobs/{job['id']}/stream"
    async with (
        opened(jobs_api.client, lost, path, last_event_id=0) as stream,
        opened(jobs_api.client, ann, path) as own,
    ):
        assert len(await stream.next(2)) == 2
        await own.comment("open")
        revoked = await jobs_api.client.delete(f"/api/keys/{created.id}", headers=ann.headers)
        assert revoked.status_code == 200
        await jobs_api.post_as(ann, f"/api/ai-jobs/{job['id']}/cancel")
        assert await stream.rest() == []
        # Her other key goes on.
        assert (await own.next(1 if which == "all" else 3))[-1].to_status == "canceled"


async def test_a_session_that_ended_ends_its_streams(jobs_api: JobsApi, ann: Person) -> None:
    signed_in = await sign_in(jobs_api.client, ann)
    browser = {"cookie": f"callsheet_session={signed_in.cookies['callsheet_session']}"}
    jobs_api.client.cookies.clear()
    async with jobs_api.client.stream("GET", ALL, headers=browser) as response:
        stream = EventStream(response)
        await stream.comment("open")
        out = {**browser, "x-csrf-token": signed_in.json()["csrf_token"]}
        assert (await jobs_api.client.post("/api/auth/logout", headers=out)).status_code == 204
        await jobs_api.submit(ann)
        assert await stream.rest() == []


async def test_a_user_may_open_a_limited_number_of_streams(
    strict_plane: ControlPlane, strict_client: httpx.AsyncClient
) -> None:
    jobs_api = await JobsApi.open(
        strict_plane, strict_client, People(strict_plane.rooms.identity.accounts, strict_plane.rooms.identity.keys)
    )
    ann, bob = await jobs_api.person(), await jobs_api.person()
    async with opened(strict_client, ann, ALL) as one, opened(strict_client, ann, ALL) as two:
        await one.comment("open")
        await two.comment("open")
        refused = await strict_client.get(ALL, headers=ann.headers)
        assert assert_refused(refused, 429, "too_many_streams")["limit"] == 2
        async with opened(strict_client, bob, ALL) as other:
            await other.comment("open")

    async def has_room() -> bool:
        async with opened(strict_client, ann, ALL) as again:
            return again.response.status_code == 200

    await until(has_room)


async def test_an_idle_stream_sends_keep_alive_comments(
    jobs_api: JobsApi, ann: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds_module, "RECHECK_SECONDS", 0.05)
    async with opened(jobs_api.client, ann, ALL) as stream:
        await stream.comment("open")
        await stream.comment("nothing new")
        await stream.comment("nothing new")
        job = await jobs_api.submit(ann)
        assert (await stream.next(1))[0].data["job_id"] == job["id"]


async def test_a_disconnected_reader_is_removed(plane: ControlPlane, jobs_api: JobsApi, ann: Person) -> None:
    feeds = plane.rooms.jobs.feeds
    before = len(feeds)
    job = await jobs_api.submit(ann)
    async with (
        opened(jobs_api.client, ann, ALL) as all_jobs,
        opened(jobs_api.client, ann, f"/api/ai-jobs/{job['id']}/stream") as one_job,
    ):
        await all_jobs.comment("open")
        await one_job.next(2)
        assert len(feeds) == before + 2

    async def forgotten() -> bool:
        return len(feeds) == before

    await until(forgotten)


async def test_changes_by_another_control_plane_are_streamed_at_once(
    strict_plane: ControlPlane, strict_client: httpx.AsyncClient, neighbour_plane: ControlPlane
) -> None:
    jobs_api = await JobsApi.open(
        strict_plane, strict_client, People(strict_plane.rooms.identity.accounts, strict_plane.rooms.identity.keys)
    )
    ann = await jobs_api.person("pool_1", tokens=100)
    job = await jobs_api.submit(ann)
    async with opened(strict_client, ann, f"/api/ai-jobs/{job['id']}/stream") as stream:
        await stream.next(2)
        leased = await neighbour_plane.rooms.jobs.starter.lease_and_start(jobs_api.core.criteria(), "worker-1")
        assert leased is not None
        await neighbour_plane.rooms.jobs.leases.complete(report(leased), {})
        # Well before the reader would have looked by itself.
        seen = await stream.next(2, seconds=feeds_module.RECHECK_SECONDS - 5)
        assert [event.to_status for event in seen] == ["processing", "completed"]
        assert await stream.rest() == []


@pytest.mark.thorough
async def test_streams_end_when_the_server_stops_and_resume_at_the_next_server(started: Started) -> None:
    # So long that a stop which waited for its streams would be noticed.
    patient = {"shutdown_seconds": 3000}
    async with httpx.AsyncClient(trust_env=False, timeout=60) as reader, AsyncExitStack() as streams:
        async with started(server=patient) as (plane, client):
            jobs_api = await JobsApi.open(
                plane, client, People(plane.rooms.identity.accounts, plane.rooms.identity.keys)
            )
            ann = await jobs_api.person("pool_2", tokens=100)
            job = await jobs_api.submit(ann)
            paths = [f"/api/ai-jobs/{job['id']}/stream", ALL]
            base = plane.settings.public_url
            both = [await streams.enter_async_context(opened(reader, ann, base + path, 0)) for path in paths]
            assert [[event.id for event in await stream.next(2)] for stream in both] == [[1, 2], [1, 2]]
            rest = [asyncio.create_task(stream.rest()) for stream in both]
        assert await asyncio.gather(*rest) == [[], []]

    async with started(server=patient) as (plane, client):
        # It happens before the readers are back.
        leased = await plane.rooms.jobs.starter.lease_and_start(jobs_api.core.criteria(), "worker-1")
        assert leased is not None
        async with opened(client, ann, paths[0], 2) as one, opened(client, ann, ALL, 2) as every:
            await plane.rooms.jobs.leases.complete(report(leased), {})
            assert [(event.id, event.to_status) for event in await one.rest()] == [(3, "processing"), (4, "completed")]
            assert [event.id for event in await every.next(2)] == [3, 4]


async def test_the_stream_of_a_user_shows_the_wallet_at_once_and_whenever_it_changes(
    jobs_api: JobsApi, ann: Person
) -> None:
    before = (await jobs_api.get(ann, "/api/wallet")).json()
    async with opened(jobs_api.client, ann, ALL, with_wallet=True) as stream:
        [first] = await stream.next(1)
        assert (first.id, first.name, first.data) == (None, "wallet", before)
        job = await jobs_api.submit(ann, cost=10)
        held = {**before, "balance": before["balance"] - 10, "held": before["held"] + 10}
        assert await _wallet_after(stream, "queued") == held
        await jobs_api.post_as(ann, f"/api/ai-jobs/{job['id']}/cancel")
        assert await _wallet_after(stream, "canceled") == before
        await jobs_api.credit(ann, 5)
        [credited] = await stream.next(1)
        assert (credited.name, credited.data) == ("wallet", {**before, "balance": before["balance"] + 5})


async def _wallet_after(stream: EventStream, status: str) -> dict[str, Any]:
    """What was said last of the wallet when the job has this status."""
    wallet: dict[str, Any] = {}
    reached = False
    while not (reached and wallet):
        [event] = await stream.next(1)
        if event.name == "wallet":
            wallet = event.data
        elif event.to_status == status:
            reached = True
    return wallet


async def test_other_tabs_are_notified_of_a_deleted_job(jobs_api: JobsApi, ann: Person) -> None:
    job = await jobs_api.submit(ann)
    await jobs_api.core.complete(await jobs_api.start())
    async with opened(jobs_api.client, ann, ALL) as stream:
        await stream.comment("open")
        assert (await jobs_api.client.delete(f"/api/ai-jobs/{job['id']}", headers=ann.headers)).status_code == 204
        [event] = await stream.next(1)
    assert (event.name, event.data["job_id"]) == ("job.deleted", job["id"])


class Noted:
    """A database that notes what it is asked."""

    def __init__(self, database: Database):
        self.name = database.name
        self.queries: list[str] = []
        self._database = database

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        async with self._database.connection() as connection:
            with connection.query_logger(lambda record: self.queries.append(record.query)):
                yield connection


async def test_reading_new_events_takes_two_statements(jobs_api: JobsApi, ann: Person) -> None:
    """Also with the wallet in it: every stream looks whenever something happens to a job of its user."""
    pool = Noted(await jobs_api.core.databases.pool(ann.tenant.pool))
    items = jobs_api.core.room.feeds.follow_user(cast("Database", pool), ann.tenant.id, ann.user.id, START)
    async with aclosing(cast("AsyncGenerator[object]", items)):
        assert isinstance(await anext(items), Wallet)
    assert len(pool.queries) == 2
