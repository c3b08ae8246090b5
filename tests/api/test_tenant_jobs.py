"""All jobs of a tenant in one list and one stream: nothing is missed, also if it is committed late."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.jobs.lease.outcomes import StartedLease
from callsheet.jobs.lease.progress import ProgressReport
from callsheet.wire.tenant.service_keys import CreateServiceKey, ServiceScope
from tests.support.http.accounts import People, Person
from tests.support.http.event_stream import EventStream
from tests.support.http.jobs_api import JobsApi
from tests.support.http.responses import assert_refused

LIST = "/api/tenant/jobs"
# What a change of a job does, by hand, so that a test decides when it is committed.
CHANGE = """
    WITH job AS (
        UPDATE ai_jobs SET event_seq = event_seq + 1 WHERE id = $1 RETURNING tenant_id, id, user_id, event_seq
    )
    INSERT INTO job_events (tenant_id, job_id, seq, user_id, user_seq, event, actor)
    SELECT tenant_id, id, event_seq, user_id, next_user_seq(tenant_id, user_id, 1), 'job.test', 'test' FROM job
"""


@pytest.fixture
async def jobs_api(plane: ControlPlane, client: httpx.AsyncClient, people: People) -> JobsApi:
    return await JobsApi.open(plane, client, people)


@pytest.fixture
async def ann(jobs_api: JobsApi) -> Person:
    return await jobs_api.person("pool_1")


@pytest.fixture
async def headers(plane: ControlPlane, ann: Person) -> dict[str, str]:
    return await headers_of(plane, ann, ServiceScope.READ)


async def headers_of(plane: ControlPlane, person: Person, scope: ServiceScope) -> dict[str, str]:
    wanted = CreateServiceKey(name="shop", scopes=[scope])
    key = await plane.rooms.identity.service_keys.create(person.tenant.id, wanted, "operator", may_credit=True)
    return {"authorization": f"Bearer {key.key}"}


async def changes(client: httpx.AsyncClient, headers: dict[str, str], **query: Any) -> tuple[list[str], str]:
    """The ids of all jobs that changed, page by page, and the position after them."""
    found: list[str] = []
    while True:
        response = await client.get(LIST, params=query, headers=headers)
        assert response.status_code == 200, response.text
        page = response.json()
        found += [item["job"]["id"] for item in page["items"]]
        query["cursor"] = page["next_cursor"]
        if page["is_last"]:
            return found, page["next_cursor"]


async def test_a_server_lists_the_jobs_of_all_users_of_its_tenant_in_the_order_of_their_changes(
    client: httpx.AsyncClient, jobs_api: JobsApi, ann: Person, headers: dict[str, str]
) -> None:
    eve, stranger = await jobs_api.person(tenant_of=ann), await jobs_api.person("pool_1")
    jobs = [(await jobs_api.submit(person, cost=0))["id"] for person in (ann, eve, ann)]
    await jobs_api.submit(stranger, cost=0)
    page = (await client.get(LIST, params={"limit": 200}, headers=headers)).json()
    assert [(item["job"]["id"], item["user_id"]) for item in page["items"]] == [
        (jobs[0], str(ann.user.id)),
        (jobs[1], str(eve.user.id)),
        (jobs[2], str(ann.user.id)),
    ]
    found, cursor = await changes(client, headers, limit=1)
    assert found == jobs
    assert await changes(client, headers, cursor=cursor) == ([], cursor)
    await jobs_api.post_as(ann, f"/api/ai-jobs/{jobs[0]}/cancel")
    found, cursor = await changes(client, headers, cursor=cursor)
    assert found == [jobs[0]]
    await client.delete(f"/api/ai-jobs/{jobs[0]}", headers=ann.headers)
    [deleted] = (await client.get(LIST, params={"cursor": cursor}, headers=headers)).json()["items"]
    assert (deleted["job"]["id"], deleted["deleted_at"] is not None) == (jobs[0], True)
    for seconds, expected in ((-60, 3), (60, 0)):
        since = (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()
        assert len((await changes(client, headers, updated_since=since))[0]) == expected


async def test_g9_a_change_that_is_committed_late_is_missed_by_no_list_and_no_stream(
    plane: ControlPlane, client: httpx.AsyncClient, jobs_api: JobsApi, ann: Person, headers: dict[str, str]
) -> None:
    """The earlier change is committed after the later one, on another connection."""
    eve = await jobs_api.person(tenant_of=ann)
    late, early = [(await jobs_api.submit(person, cost=0))["id"] for person in (ann, eve)]
    _, cursor = await changes(client, headers)
    pool = await plane.databases.pool(ann.tenant.pool)
    async with client.stream("GET", f"{LIST}/stream", headers=headers | {"last-event-id": cursor}) as response:
        stream = EventStream(response)
        await stream.comment("open")
        async with pool.transaction() as connection:
            await connection.execute(CHANGE, UUID(late))
            await jobs_api.post_as(eve, f"/api/ai-jobs/{early}/cancel")
            held_back, same = await changes(client, headers, cursor=cursor)
            assert (held_back, same) == ([], cursor)
        found, _ = await changes(client, headers, cursor=cursor)
        events = await stream.next(2)
    assert found == [late, early]
    assert [(event.data["job_id"], event.name) for event in events] == [(late, "job.test"), (early, "job.transition")]
    assert datetime.fromisoformat(events[0].data["at"]) < datetime.fromisoformat(events[1].data["at"])


async def test_an_open_transaction_that_has_written_nothing_holds_nothing_back(
    plane: ControlPlane, client: httpx.AsyncClient, jobs_api: JobsApi, ann: Person, headers: dict[str, str]
) -> None:
    """A dump of the database takes minutes. What it writes later has a later time: event_time."""
    job = (await jobs_api.submit(ann, cost=0))["id"]
    pool = await plane.databases.pool(ann.tenant.pool)
    async with pool.transaction() as connection:
        await connection.execute("SELECT count(*) FROM ai_jobs")
        first, cursor = await changes(client, headers)
        await connection.execute(CHANGE, UUID(job))
    second, _ = await changes(client, headers, cursor=cursor)
    assert (first, second) == ([job], [job])


async def test_the_stream_names_the_user_of_each_event_and_resumes(
    client: httpx.AsyncClient, jobs_api: JobsApi, plane: ControlPlane, ann: Person, headers: dict[str, str]
) -> None:
    async with plane.databases.central.connection() as connection:
        await connection.execute("UPDATE users SET external_id = 'customer-1' WHERE id = $1", ann.user.id)
    async with client.stream("GET", f"{LIST}/stream", headers=headers) as response:
        stream = EventStream(response)
        await stream.comment("open")
        # The position of a stream without Last-Event-ID is known after the first read.
        jobs = [(await jobs_api.submit(ann, cost=0))["id"] for _ in range(3)]
        seen = [event for event in await stream.next(6) if event.name == "job.created"]
    assert jobs[-1] in [event.data["job_id"] for event in seen]
    assert {(event.data["user_id"], event.data["external_id"]) for event in seen} == {(str(ann.user.id), "customer-1")}
    resumed = headers | {"last-event-id": seen[0].position}
    async with client.stream("GET", f"{LIST}/stream", headers=resumed) as response:
        again = [event.position for event in await EventStream(response).next(2)]
    assert again[0] > seen[0].position
    found, _ = await changes(client, headers, cursor=seen[-1].position)
    assert jobs[-1] in found


@pytest.mark.parametrize("query", [{"cursor": "x"}, {"cursor": f"{'9' * 18}-{'0' * 32}-1"}, {"updated_since": "soon"}])
async def test_a_position_of_another_form_is_refused(
    client: httpx.AsyncClient, headers: dict[str, str], query: dict[str, str]
) -> None:
    assert_refused(
        await client.get(LIST, params=query, headers=headers),
        422,
        "invalid_request",
        *(f"query.{name}" for name in query),
    )


async def test_a_key_that_acts_for_a_user_or_may_not_read_sees_no_other_jobs(
    plane: ControlPlane, client: httpx.AsyncClient, ann: Person, headers: dict[str, str]
) -> None:
    named = headers | {"Callsheet-On-Behalf-Of": f"user:{ann.user.id}"}
    assert_refused(await client.get(LIST, headers=named), 422, "invalid_request", "Callsheet-On-Behalf-Of")
    without_read = await headers_of(plane, ann, ServiceScope.SUBMIT_FOR_USERS)
    assert_refused(await client.get(LIST, headers=without_read), 403, "forbidden")
    assert_refused(await client.get(LIST, headers=ann.headers), 403, "forbidden")


async def test_g6_the_stream_has_the_progress_of_all_jobs_of_the_tenant_live_and_without_an_id(
    client: httpx.AsyncClient, jobs_api: JobsApi, plane: ControlPlane, ann: Person, headers: dict[str, str]
) -> None:
    async with plane.databases.central.connection() as connection:
        await connection.execute("UPDATE users SET external_id = 'customer-2' WHERE id = $1", ann.user.id)
    eve, stranger = await jobs_api.person(tenant_of=ann), await jobs_api.person("pool_1")
    jobs, runs = [], []
    for person in (ann, eve, stranger):
        jobs.append((await jobs_api.submit(person, cost=0))["id"])
        runs.append(await jobs_api.start())
    _, cursor = await changes(client, headers)
    await report_progress(jobs_api, runs[2], percent=99)
    await report_progress(jobs_api, runs[0], percent=10, message="loading", preview=b"x", preview_type="image/png")
    async with client.stream("GET", f"{LIST}/stream", headers=headers | {"last-event-id": cursor}) as response:
        stream = EventStream(response)
        seen = await stream.next(1)
        await report_progress(jobs_api, runs[1], percent=20)
        seen += await stream.next(1)
        await report_progress(jobs_api, runs[0], percent=30)
        seen += await stream.next(1)
        await jobs_api.core.complete(runs[0])
        [ended] = await stream.next(1)
    assert [(event.name, event.position, event.data["job_id"], event.data["percent"]) for event in seen] == [
        ("progress", "", jobs[0], 10),
        ("progress", "", jobs[1], 20),
        ("progress", "", jobs[0], 30),
    ]
    assert [(event.data["user_id"], event.data["external_id"]) for event in seen[:2]] == [
        (str(ann.user.id), "customer-2"),
        (str(eve.user.id), None),
    ]
    assert "preview_url" not in seen[0].data
    assert (ended.data["job_id"], ended.data["to_status"]) == (jobs[0], "completed")
    # Not an event: a server that resumes gets the latest value of what still runs.
    async with client.stream("GET", f"{LIST}/stream", headers=headers | {"last-event-id": cursor}) as response:
        again = await EventStream(response).next(2)
    assert [(event.name, event.data.get("percent")) for event in again] == [("job.transition", None), ("progress", 20)]


async def test_progress_of_more_jobs_than_one_read_takes_is_streamed_page_by_page(
    client: httpx.AsyncClient,
    jobs_api: JobsApi,
    ann: Person,
    headers: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in ("callsheet.jobs.lease.progress", "callsheet.jobs.stream.tenant_progress"):
        monkeypatch.setattr(f"{module}.MAX_AT_ONCE", 2)
    runs = []
    for _ in range(5):
        await jobs_api.submit(ann, cost=0)
        runs.append(await jobs_api.start())
        await report_progress(jobs_api, runs[-1], percent=1)
    async with client.stream("GET", f"{LIST}/stream", headers=headers) as response:
        stream = EventStream(response)
        first = await stream.next(5)
        await report_progress(jobs_api, runs[0], percent=2)
        await report_progress(jobs_api, runs[4], percent=3)
        second = await stream.next(2)
    assert {event.data["job_id"] for event in first} == {str(run.lease.cycle.job_id) for run in runs}
    # Each value once, whichever page it is on.
    assert sorted(event.data["percent"] for event in second) == [2, 3]


async def report_progress(jobs_api: JobsApi, run: StartedLease, **fields: Any) -> None:
    await jobs_api.core.room.progress.record(run.lease.cycle, run.lease.lease_seq, ProgressReport(**fields))
