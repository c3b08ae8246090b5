"""The waterfall of a job: measurements of its workers, its history and its cost, for authorized users."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from callsheet.jobs.repair.retention import EventRetention
from callsheet.plumbing.database.sql import Statement
from callsheet.wire.identity import Role
from tests.support.http.accounts import People, Person
from tests.support.http.scripted_worker import ScriptedWorker, described
from tests.support.http.worker_harness import OUTPUT, WorkerHarness

TRACE = {
    "phases": [{"name": "download", "start_ms": 0, "end_ms": 1}, {"name": "run", "start_ms": 1, "end_ms": 3}],
    "nodes": [
        {"node_id": "3", "start_ms": 1, "end_ms": 1, "cached": True},
        {"node_id": "9", "start_ms": 1, "end_ms": 3},
    ],
}
DELIVERED = {"output": described(OUTPUT, "video/mp4")}


@pytest.fixture
async def ann(worker_harness: WorkerHarness) -> Person:
    return await worker_harness.jobs_api.person(tokens=100)


async def waterfall(harness: WorkerHarness, job_id: str, headers: dict[str, str] | None = None) -> dict[str, Any]:
    path = f"/api/admin/jobs/{job_id}/waterfall"
    response = await harness.client.get(path, headers=headers or harness.jobs_api.admin.headers)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


async def complete(worker: ScriptedWorker, job: dict[str, Any], **fields: Any) -> None:
    await worker.deliver(job, OUTPUT)
    response = await worker.complete(job, **DELIVERED, **fields)
    assert (response.status_code, response.json()["status"]) == (200, "completed"), response.text


async def traces(harness: WorkerHarness, person: Person) -> list[Any]:
    pool = await harness.plane.databases.pool(person.tenant.pool)
    query = "SELECT * FROM job_traces WHERE tenant_id = $1 ORDER BY job_id, seq"
    return list(await harness.jobs_api.core.rows(pool, query, person.tenant.id))


async def test_each_attempt_is_shown_with_its_worker_its_parts_and_its_tokens(
    worker_harness: WorkerHarness, ann: Person
) -> None:
    first, second = await worker_harness.worker(), await worker_harness.worker()
    submitted = await worker_harness.engine_job(ann)
    job = await first.job()
    response = await first.fail(job, "It broke.", error={"retryable": True}, trace={"phases": TRACE["phases"]})
    assert response.json()["status"] == "queued"
    await worker_harness.plane.rooms.jobs.dispatch.queue.promote(datetime.now(UTC) + timedelta(days=1))
    await complete(second, await second.job(), trace=TRACE)

    shown = await waterfall(worker_harness, submitted["id"])
    attempts = [span for span in shown["spans"] if span["kind"] == "attempt"]
    assert [(each["worker_id"], each["attempt"], each["outcome"]) for each in attempts] == [
        (first.worker_id, 1, "queued"),
        (second.worker_id, 2, "completed"),
    ]
    parts = [
        [(span["kind"], span["name"], span["cached"]) for span in shown["spans"] if span["parent_id"] == each["id"]]
        for each in attempts
    ]
    phases = [("phase", "download", False), ("phase", "run", False)]
    assert sorted(parts[0]) == phases
    assert sorted(parts[1]) == [("node", "3", True), ("node", "9", False), *phases]
    assert [span["kind"] for span in shown["spans"]].count("queued") == 2
    assert shown["spans"][-1]["kind"] == "ended"
    assert shown["ended_at"] is not None
    assert [line["type"] for line in shown["transactions"]] == ["JOB_RESERVE", "JOB_CONSUME"]
    assert [event["actor"] for event in shown["events"] if event["to_status"] == "completed"] == [
        f"worker:{second.worker_id}"
    ]


async def test_operators_and_tenant_admins_get_the_files_of_a_job_and_viewers_do_not(
    worker_harness: WorkerHarness, people: People, ann: Person
) -> None:
    worker = await worker_harness.worker()
    submitted = await worker_harness.engine_job(ann)
    job = await worker.job()
    await worker.heartbeat(job, progress={"percent": 10})
    path = f"/api/admin/jobs/{submitted['id']}"
    viewer = await people.user(role=Role.VIEWER)
    running = (await worker_harness.client.get(path, headers=viewer.headers)).json()
    assert (running["progress"]["percent"], running["progress"]["preview_url"]) == (10, None)
    await complete(worker, job)
    manager = await people.user(ann.tenant, Role.TENANT_ADMIN)
    listed = f"/api/admin/tenants/{ann.tenant.id}/jobs"
    for person, sees_files in ((worker_harness.jobs_api.admin, True), (manager, True), (viewer, False)):
        one = (await worker_harness.client.get(path, headers=person.headers)).json()
        [first] = (await worker_harness.client.get(listed, headers=person.headers)).json()["items"]
        for shown in (one, first):
            assert shown["status"] == "completed"
            assert (bool(shown["outputs"]), bool(shown["result"])) == (sees_files, sees_files), person.user.role


@pytest.mark.parametrize(
    "trace", ["soon", {"nodes": [{"node_id": "3"}]}, {"nodes": [{}] * 5000}], ids=["text", "node", "many"]
)
async def test_a_trace_that_cannot_be_read_loses_no_result_and_the_log_of_the_worker_says_why(
    worker_harness: WorkerHarness, ann: Person, trace: object
) -> None:
    worker = await worker_harness.worker()
    submitted = await worker_harness.engine_job(ann)
    await complete(worker, await worker.job(), trace=trace)
    assert (await worker_harness.shown(ann, submitted["id"]))["status"] == "completed"
    assert await traces(worker_harness, ann) == []
    await worker_harness.audited(worker, "registered", "leased", "completed")
    query = "SELECT details FROM worker_audit_logs WHERE worker_id = $1 AND event = 'completed'"
    [line] = await worker_harness.central(query, worker.worker_id)
    assert line["details"]["trace_dropped"].startswith("trace")


async def test_a_running_job_shows_the_current_node(worker_harness: WorkerHarness, ann: Person) -> None:
    worker = await worker_harness.worker()
    submitted = await worker_harness.engine_job(ann)
    waiting = (await waterfall(worker_harness, submitted["id"]))["why_waiting"]
    assert waiting == (await worker_harness.shown(ann, submitted["id"]))["why_waiting"] is not None
    job = await worker.job()
    await worker.heartbeat(job, progress={"percent": 10, "node_id": "9"})
    await worker.heartbeat(job, progress={"percent": 20})
    shown = await waterfall(worker_harness, submitted["id"])
    assert (shown["status"], shown["progress"]["node_id"], shown["ended_at"]) == ("processing", "9", None)
    assert (shown["spans"][-1]["kind"], shown["spans"][-1]["ended_at"]) == ("attempt", None)
    assert shown["why_waiting"] is None
    await worker.heartbeat(job, progress={"message": "Uploading the result", "node_id": ""})
    assert (await waterfall(worker_harness, submitted["id"]))["progress"]["node_id"] is None


async def test_a_trace_costs_no_statement(
    worker_harness: WorkerHarness, ann: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[str] = []
    arguments = Statement._arguments

    def counted(self: Statement, values: Any) -> list[object]:
        names.append(self.name)
        return arguments(self, values)

    worker = await worker_harness.worker()
    counts = []
    for fields in ({}, {"trace": TRACE}):
        await worker_harness.engine_job(ann)
        job = await worker.job()
        await worker.deliver(job, OUTPUT)
        with monkeypatch.context() as patch:
            patch.setattr(Statement, "_arguments", counted)
            names.clear()
            assert (await worker.complete(job, **DELIVERED, **fields)).status_code == 200
            counts.append(sorted(name for name in names if name in ("find", "complete_jobs", "close")))
    assert counts[0] == counts[1] == ["close", "complete_jobs", "find"]
    assert len(await traces(worker_harness, ann)) == 1


async def test_traces_are_deleted_with_the_job_and_with_its_events(worker_harness: WorkerHarness, ann: Person) -> None:
    worker = await worker_harness.worker()
    deleted, old = [(await worker_harness.engine_job(ann))["id"] for _ in range(2)]
    for _ in range(2):
        await complete(worker, await worker.job(), trace=TRACE)
    assert len(await traces(worker_harness, ann)) == 2
    response = await worker_harness.client.delete(f"/api/ai-jobs/{deleted}", headers=ann.headers)
    assert response.status_code == 204, response.text
    assert [str(row["job_id"]) for row in await traces(worker_harness, ann)] == [old]
    pool = await worker_harness.plane.databases.pool(ann.tenant.pool)
    query = "UPDATE ai_jobs SET completed_at = now() - interval '400 days' WHERE id = $1"
    await worker_harness.jobs_api.core.rows(pool, query, UUID(old))
    await EventRetention(lambda: [pool], 365).tick(datetime.now(UTC))
    assert await traces(worker_harness, ann) == []
    kinds = [span["kind"] for span in (await waterfall(worker_harness, old))["spans"]]
    assert kinds == ["accepted", "queued", "attempt", "ended"]


async def test_an_admin_of_the_tenant_sees_no_names_of_workers(worker_harness: WorkerHarness, ann: Person) -> None:
    worker = await worker_harness.worker()
    submitted = await worker_harness.engine_job(ann)
    await worker.requeue(await worker.job(), f"{worker.worker_id} is taken away")
    people = People(worker_harness.plane.rooms.identity.accounts, worker_harness.plane.rooms.identity.keys)
    tenant_admin = await people.user(ann.tenant, Role.TENANT_ADMIN)
    shown = await waterfall(worker_harness, submitted["id"], tenant_admin.headers)
    assert worker.worker_id not in str(shown)
    assert worker.worker_id in str(await waterfall(worker_harness, submitted["id"]))
    assert [span["outcome"] for span in shown["spans"] if span["kind"] == "attempt"] == ["queued"]
    assert len(shown["transactions"]) == 1
