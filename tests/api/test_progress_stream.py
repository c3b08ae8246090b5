"""Progress and previews in the streams: the latest value, live, once, and never as history."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.jobs.lease.outcomes import StartedLease
from callsheet.jobs.lease.progress import ProgressReport
from callsheet.plumbing.database.databases import Databases
from tests.support.http.accounts import People, Person
from tests.support.http.event_stream import Event, EventStream, opened
from tests.support.http.jobs_api import JobsApi
from tests.support.jobs.core import Core, Member, open_core, report

ALL = "/api/ai-jobs/stream"
IMAGE = b"\x89PNG\r\n\x1a\n a picture"
STREAMS = pytest.mark.parametrize("which", ["job", "all"])


@pytest.fixture
async def jobs_api(plane: ControlPlane, client: httpx.AsyncClient, people: People) -> JobsApi:
    return await JobsApi.open(plane, client, people)


@pytest.fixture
async def ann(jobs_api: JobsApi) -> Person:
    return await jobs_api.person("pool_2", tokens=1000)


async def running(jobs_api: JobsApi, person: Person) -> tuple[str, StartedLease]:
    job = await jobs_api.submit(person)
    return job["id"], await jobs_api.start()


async def report_progress(core: Core, started: StartedLease, **fields: Any) -> None:
    lease = started.lease
    await core.room.progress.record(lease.cycle, lease.lease_seq, ProgressReport(**fields))


@asynccontextmanager
async def watching(jobs_api: JobsApi, person: Person, which: str, job_id: str, seen: int) -> AsyncIterator[EventStream]:
    path = ALL if which == "all" else f"/api/ai-jobs/{job_id}/stream"
    async with opened(jobs_api.client, person, path, last_event_id=seen) as stream:
        yield stream


def summary_of(event: Event) -> tuple[int | None, str, Any]:
    shown = event.data.get("percent") if event.name == "progress" else event.data.get("to_status")
    return event.id, event.name, shown


@STREAMS
async def test_progress_is_sent_live_without_an_id_and_events_go_on_in_order(
    jobs_api: JobsApi, ann: Person, which: str
) -> None:
    job_id, started = await running(jobs_api, ann)
    async with watching(jobs_api, ann, which, job_id, 3) as stream:
        await stream.comment("open")
        await report_progress(jobs_api.core, started, percent=10, message="loading", elapsed_ms=900)
        [event] = await stream.next(1)
        assert summary_of(event) == (None, "progress", 10)
        assert {name: event.data[name] for name in ("job_id", "message", "elapsed_ms")} == {
            "job_id": job_id,
            "message": "loading",
            "elapsed_ms": 900,
        }
        assert "preview_url" not in event.data
        await report_progress(jobs_api.core, started, percent=60)
        [event] = await stream.next(1)
        # What was not said again stays.
        assert (event.data["percent"], event.data["message"]) == (60, "loading")
        await jobs_api.core.complete(started)
        [event] = await stream.next(1)
        assert summary_of(event) == (4, "job.transition", "completed")


@STREAMS
async def test_an_image_is_an_event_of_its_own_and_sent_once(jobs_api: JobsApi, ann: Person, which: str) -> None:
    job_id, started = await running(jobs_api, ann)
    async with watching(jobs_api, ann, which, job_id, 3) as stream:
        await report_progress(jobs_api.core, started, percent=10, preview=IMAGE, preview_type="image/png")
        progress, preview = await stream.next(2)
        assert summary_of(progress) == (None, "progress", 10)
        assert (preview.id, preview.name, preview.data["job_id"]) == (None, "preview", job_id)
        kind, _, data = preview.data["preview_url"].partition(",")
        assert (kind, base64.b64decode(data)) == ("data:image/png;base64", IMAGE)
        await report_progress(jobs_api.core, started, percent=20)
        assert [event.name for event in await stream.next(1)] == ["progress"]
        await jobs_api.core.complete(started)
        assert [event.name for event in await stream.next(1)] == ["job.transition"]


@STREAMS
async def test_a_stream_opened_in_the_middle_gets_the_current_value_once(
    jobs_api: JobsApi, ann: Person, which: str
) -> None:
    job_id, started = await running(jobs_api, ann)
    for percent in (10, 20, 30):
        await report_progress(jobs_api.core, started, percent=percent, preview=IMAGE, preview_type="image/png")
    async with watching(jobs_api, ann, which, job_id, 0) as stream:
        seen = [summary_of(event) for event in await stream.next(5)]
        # History first, then the current progress; the progress in between is gone.
        assert seen[:3] == [
            (1, "job.created", "pending"),
            (2, "job.transition", "queued"),
            (3, "job.transition", "processing"),
        ]
        assert [entry[:2] for entry in seen[3:]] == [(None, "progress"), (None, "preview")]
        assert seen[3][2] == 30
        await jobs_api.core.complete(started)
        assert [summary_of(event) for event in await stream.next(1)] == [(4, "job.transition", "completed")]
    async with watching(jobs_api, ann, "job", job_id, 0) as stream:
        assert [event.name for event in await stream.rest()] == ["job.created", *["job.transition"] * 3]


async def test_progress_is_not_in_the_history(jobs_api: JobsApi, ann: Person) -> None:
    job_id, started = await running(jobs_api, ann)
    await report_progress(jobs_api.core, started, percent=10)
    events = (await jobs_api.get(ann, f"/api/ai-jobs/{job_id}/events")).json()["items"]
    assert [event["event"] for event in events] == ["job.created", "job.transition", "job.transition"]


async def test_the_stream_of_a_user_has_all_their_running_jobs_and_no_other_jobs(
    jobs_api: JobsApi, ann: Person
) -> None:
    bob = await jobs_api.person(tenant_of=ann, tokens=100)
    (first, one), (second, two), (_, theirs) = [await running(jobs_api, person) for person in (ann, ann, bob)]
    async with opened(jobs_api.client, ann, ALL) as stream:
        await stream.comment("open")
        await report_progress(jobs_api.core, theirs, percent=99)
        await report_progress(jobs_api.core, one, percent=1)
        [event] = await stream.next(1)
        assert (event.data["job_id"], event.data["percent"]) == (first, 1)
        await report_progress(jobs_api.core, two, percent=2)
        [event] = await stream.next(1)
        assert (event.data["job_id"], event.data["percent"]) == (second, 2)


async def test_progress_that_another_control_plane_receives_is_streamed_here(
    strict_plane: ControlPlane, strict_client: httpx.AsyncClient, neighbour_plane: ControlPlane
) -> None:
    jobs_api = await JobsApi.open(
        strict_plane, strict_client, People(strict_plane.rooms.identity.accounts, strict_plane.rooms.identity.keys)
    )
    ann = await jobs_api.person("pool_1", tokens=100)
    job_id, leased = await running(jobs_api, ann)
    async with watching(jobs_api, ann, "job", job_id, 3) as stream:
        await stream.comment("open")
        await report_progress(Core(neighbour_plane.databases, neighbour_plane.rooms.jobs, []), leased, percent=42)
        assert [summary_of(event) for event in await stream.next(1)] == [(None, "progress", 42)]


async def shown(jobs_api: JobsApi, person: Person, job_id: str) -> dict[str, Any] | None:
    progress: dict[str, Any] | None = (await jobs_api.get(person, f"/api/ai-jobs/{job_id}")).json()["progress"]
    return progress


async def rows(jobs_api: JobsApi, person: Person, job_id: str) -> int:
    pool = await jobs_api.core.databases.pool(person.tenant.pool)
    found = await jobs_api.core.rows(pool, "SELECT 1 FROM job_progress WHERE job_id = $1", UUID(job_id))
    return len(found)


async def test_only_progress_of_the_current_lease_is_accepted(jobs_api: JobsApi, ann: Person) -> None:
    job_id, first = await running(jobs_api, ann)
    await report_progress(jobs_api.core, first, percent=10, preview=IMAGE, preview_type="image/png")
    await jobs_api.core.room.leases.requeue(report(first), "spot")
    # Requeued: the progress of the old run is not the progress of the job.
    assert await shown(jobs_api, ann, job_id) is None
    await report_progress(jobs_api.core, first, percent=11)
    second = await jobs_api.start()
    assert await shown(jobs_api, ann, job_id) is None
    await report_progress(jobs_api.core, first, percent=12)
    assert await shown(jobs_api, ann, job_id) is None
    await report_progress(jobs_api.core, second, message="again")
    found = await shown(jobs_api, ann, job_id)
    # Nothing of the run before is mixed into it.
    assert found is not None
    assert (found["percent"], found["message"], found["preview_url"]) == (None, "again", None)
    await report_progress(jobs_api.core, first, percent=99)
    found = await shown(jobs_api, ann, job_id)
    assert found is not None
    assert found["percent"] is None


async def test_the_last_progress_of_a_run_is_deleted_after_its_end(
    jobs_api: JobsApi, ann: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id, started = await running(jobs_api, ann)
    await report_progress(jobs_api.core, started, percent=10)
    pool = await jobs_api.core.databases.pool(ann.tenant.pool)
    sweeper = jobs_api.core.room.progress_sweeper
    await sweeper.sweep(pool)
    assert await rows(jobs_api, ann, job_id) == 1
    await jobs_api.core.complete(started)
    await report_progress(jobs_api.core, started, percent=100)
    assert await shown(jobs_api, ann, job_id) is None
    # Page by page, however small a page is.
    monkeypatch.setattr(sweeper, "batch", 1)
    await sweeper.sweep(pool)
    assert await rows(jobs_api, ann, job_id) == 0


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        ({"percent": 250.0}, {"percent": 100}),
        ({"percent": -3.0}, {"percent": 0}),
        ({"percent": float("nan")}, {"percent": None}),
        ({"percent": float("inf")}, {"percent": None}),
        ({"message": "a\0b\nc \udfff"}, {"message": "a b c ?"}),
        ({"message": "word " * 180}, {"message": "word " * 100 + "…"}),
        ({"elapsed_ms": -5}, {"elapsed_ms": 0}),
        ({"elapsed_ms": 2**80}, {"elapsed_ms": 2**53}),
        ({"preview": b"x" * 65_537, "preview_type": "image/png"}, {"preview_url": None}),
        ({"preview": b"<svg onload='x()'>", "preview_type": "image/svg+xml"}, {"preview_url": None}),
        ({"preview": IMAGE}, {"preview_url": None}),
        ({"preview": b"", "preview_type": "image/png"}, {"preview_url": None}),
    ],
)
async def test_odd_reports_are_cleaned_and_fail_no_heartbeat(
    jobs_api: JobsApi, ann: Person, fields: dict[str, Any], kept: dict[str, Any]
) -> None:
    job_id, started = await running(jobs_api, ann)
    await report_progress(jobs_api.core, started, **fields)
    found = await shown(jobs_api, ann, job_id)
    assert found is not None
    assert {name: found[name] for name in kept} == kept


async def test_concurrent_reports_take_one_statement_and_the_last_one_counts(
    shared_databases: Databases,
) -> None:
    summary_of: list[tuple[str, str]] = []
    core = await open_core(shared_databases, lambda *message: summary_of.append(message), active_per_user=100).prepare()
    members: list[Member] = [await core.member(pool) for pool in ("pool_1", "pool_2")]
    jobs = [await core.submit(members[number % 2]) for number in range(6)]
    leases = [await core.start(f"worker-{number}") for number in range(6)]
    summary_of.clear()
    await asyncio.gather(*(report_progress(core, lease, percent=percent) for percent in (1, 2, 3) for lease in leases))
    for number, job in enumerate(jobs):
        pool = members[number % 2].pool
        [row] = await core.rows(pool, "SELECT percent FROM job_progress WHERE job_id = $1", job.id)
        assert row["percent"] == 3
    assert {channel for channel, _ in summary_of} == {"job_events"}
    assert len(summary_of) < 18
