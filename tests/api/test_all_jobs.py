"""Operators find jobs of all tenants, see their errors in groups, and act on many of them."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.jobs.lease.outcomes import Failure
from callsheet.wire.identity import Role
from tests.support.http.accounts import People, Person
from tests.support.http.jobs_api import JobsApi
from tests.support.http.responses import assert_refused
from tests.support.jobs.core import report
from tests.support.waiting import until


@pytest.fixture
async def jobs_api(plane: ControlPlane, client: httpx.AsyncClient, people: People) -> JobsApi:
    return await JobsApi.open(plane, client, people)


@pytest.fixture
async def ann(jobs_api: JobsApi) -> Person:
    return await jobs_api.person("pool_1", tokens=1000)


@pytest.fixture
async def bob(jobs_api: JobsApi) -> Person:
    return await jobs_api.person("pool_2", tokens=1000)


async def get(jobs_api: JobsApi, path: str, person: Person | None = None, **wanted: Any) -> Any:
    response = await jobs_api.client.get(
        f"/api/admin/{path}", params=wanted, headers=(person or jobs_api.admin).headers
    )
    assert response.status_code == 200, response.text
    return response.json()


async def listed(jobs_api: JobsApi, **wanted: Any) -> list[str]:
    """All pages of a list, of jobs of this test."""
    found: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = await get(jobs_api, "jobs", **{"workflow": jobs_api.workflow, **wanted, **cursor})
        found += [job["id"] for job in page["items"]]
        if page["next_cursor"] is None:
            return found
        cursor = {"cursor": page["next_cursor"]}


async def failed(jobs_api: JobsApi, person: Person, message: str, kind: str = "engine_error") -> str:
    job = await jobs_api.submit(person, priority=9)
    await jobs_api.core.room.leases.fail(report(await jobs_api.start()), Failure(kind, message))
    return str(job["id"])


async def test_jobs_of_all_tenants_are_listed_newest_first_and_by_pages(
    jobs_api: JobsApi, ann: Person, bob: Person
) -> None:
    jobs = [(await jobs_api.submit(person))["id"] for person in (ann, bob, ann, bob, ann)]
    assert await listed(jobs_api) == jobs[::-1]
    assert await listed(jobs_api, limit=2) == jobs[::-1]
    page = await get(jobs_api, "jobs", workflow=jobs_api.workflow, limit=1)
    [job] = page["items"]
    assert (job["tenant"], job["user"], job["workflow"]) == (ann.tenant.slug, ann.user.email, jobs_api.workflow)
    assert (job["status"], job["cost"], job["kind"], job["error"]) == ("queued", 10, "effect", None)
    assert "payload" not in job


async def test_a_job_that_was_submitted_by_workflow_has_the_name_of_the_workflow(
    jobs_api: JobsApi, ann: Person
) -> None:
    job = await jobs_api.submit(ann)
    [row] = (await get(jobs_api, "jobs", workflow=jobs_api.workflow))["items"]
    [own] = (await jobs_api.get(ann, "/api/library/jobs")).json()["items"]
    one = (await jobs_api.get(ann, f"/api/ai-jobs/{job['id']}")).json()
    [spent, *_] = (await jobs_api.get(ann, "/api/wallet/transactions")).json()["items"]
    assert [each["title"] for each in (row, own, one, spent)] == ["A workflow"] * 4
    assert len((await jobs_api.get(ann, "/api/library/jobs?q=workflow")).json()["items"]) == 1
    # A deleted job has no title of its own any more.
    pool = await jobs_api.core.databases.pool("pool_1")
    async with pool.connection() as connection:
        await connection.execute("DELETE FROM job_descriptions WHERE job_id = $1", job["id"])
    [row] = (await get(jobs_api, "jobs", workflow=jobs_api.workflow))["items"]
    assert (row["title"], row["kind"]) == (jobs_api.workflow, "effect")


async def test_filters_find_jobs_by_every_property_an_operator_knows(
    jobs_api: JobsApi, ann: Person, bob: Person
) -> None:
    one = await failed(jobs_api, ann, "Out of memory at step 4")
    two = await failed(jobs_api, bob, "Model is missing")
    running = (await jobs_api.submit(bob, priority=9))["id"]
    started = await jobs_api.core.start("worker-of-the-filter")
    queued = (await jobs_api.submit(ann))["id"]
    newest_first = [queued, running, two, one]
    assert await listed(jobs_api) == newest_first
    assert await listed(jobs_api, status="failed") == [two, one]
    assert await listed(jobs_api, status=["failed", "queued"]) == [queued, two, one]
    assert await listed(jobs_api, tenant_id=ann.tenant.id) == [queued, one]
    assert await listed(jobs_api, user_id=bob.user.id) == [running, two]
    assert await listed(jobs_api, tenant_id=ann.tenant.id, status="failed") == [one]
    assert await listed(jobs_api, kind="effect") == newest_first
    assert await listed(jobs_api, kind="task") == []
    run_id = uuid4()
    async with (await jobs_api.core.databases.pool("pool_1")).transaction() as connection:
        await connection.execute("UPDATE ai_jobs SET run_id = $1, step_id = $1 WHERE id = $2", run_id, UUID(one))
    assert await listed(jobs_api, run_id=run_id, status="failed") == [one]
    assert await listed(jobs_api, run_id=uuid4()) == []
    assert await listed(jobs_api, effect="no-such-effect") == []
    assert await listed(jobs_api, workflow="no-such-workflow") == []
    assert await listed(jobs_api, worker_id="worker-of-the-filter") == [running]
    assert await listed(jobs_api, worker_id="no-such-worker") == []
    assert await listed(jobs_api, q="MEMORY step") == [one]
    assert await listed(jobs_api, q="memory missing") == []
    assert await listed(jobs_api, q=running) == [running]
    assert await listed(jobs_api, job_id=[one, queued]) == [queued, one]
    assert await listed(jobs_api, q=one, job_id=[queued]) == []
    [shown] = (await get(jobs_api, "jobs", job_id=two))["items"]
    assert await listed(jobs_api, created_from=shown["created_at"]) == newest_first[:3]
    assert await listed(jobs_api, created_to=shown["created_at"]) == [one]
    assert await listed(jobs_api, fingerprint=shown["fingerprint"]) == [two]
    await jobs_api.core.complete(started)
    assert await listed(jobs_api, worker_id="worker-of-the-filter", status="completed") == [running]


async def test_totals_say_how_many_jobs_there_are_and_what_they_cost(
    jobs_api: JobsApi, ann: Person, bob: Person
) -> None:
    await failed(jobs_api, ann, "It broke.")
    await jobs_api.submit(bob, cost=7)
    await jobs_api.submit(ann, cost=5)
    totals = await get(jobs_api, "job-totals", workflow=jobs_api.workflow)
    assert (totals["jobs"], totals["tokens"], totals["is_partial"]) == (3, 22, False)
    assert totals["by_status"]["queued"] == {"jobs": 2, "tokens": 12}
    assert totals["by_status"]["failed"] == {"jobs": 1, "tokens": 10}
    assert totals["by_status"]["expired"] == {"jobs": 0, "tokens": 0}
    only = await get(jobs_api, "job-totals", workflow=jobs_api.workflow, status="failed")
    assert (only["jobs"], only["tokens"]) == (1, 10)


async def test_errors_are_grouped_by_what_they_have_in_common(jobs_api: JobsApi, ann: Person, bob: Person) -> None:
    first = await failed(jobs_api, ann, "Node 4 ran out of memory (2.5 GiB)")
    await failed(jobs_api, ann, "The model is missing")
    last = await failed(jobs_api, bob, "Node 17 ran out of memory (11 GiB)")
    groups = (await get(jobs_api, "job-errors", workflow=jobs_api.workflow))["items"]
    assert [(group["jobs"], group["tenants"]) for group in groups] == [(2, 2), (1, 1)]
    memory = groups[0]
    assert memory["example"]["job_id"] == last
    assert (memory["example"]["type"], memory["example"]["tenant"]) == ("engine_error", bob.tenant.slug)
    assert memory["example"]["message"] == "Node 17 ran out of memory (11 GiB)"
    assert memory["first_seen_at"] < memory["last_seen_at"]
    for path in (f"job-errors/{memory['fingerprint']}", f"jobs/{first}/error-group"):
        same = await get(jobs_api, path)
        assert (same["jobs"], same["fingerprint"], same["example"]["job_id"]) == (2, memory["fingerprint"], last)
    assert await listed(jobs_api, fingerprint=memory["fingerprint"]) == [last, first]
    of_ann = (await get(jobs_api, "job-errors", workflow=jobs_api.workflow, tenant_id=str(ann.tenant.id)))["items"]
    assert [group["jobs"] for group in of_ann] == [1, 1]
    assert (await get(jobs_api, "job-errors", until="2020-01-01T00:00:00Z"))["items"] == []
    # A job that is retried leaves its group.
    await jobs_api.core.room.retries.retry(bob.tenant.id, UUID(last), actor="user")
    assert (await get(jobs_api, f"job-errors/{memory['fingerprint']}"))["jobs"] == 1
    no_error = await jobs_api.client.get(f"/api/admin/jobs/{last}/error-group", headers=jobs_api.admin.headers)
    assert_refused(no_error, 404, "not_found")


async def test_an_operator_retries_all_failed_jobs_and_a_viewer_watches(
    jobs_api: JobsApi, ann: Person, bob: Person
) -> None:
    jobs = [await failed(jobs_api, person, "It broke.") for person in (ann, bob)]
    wanted = {"workflow": [jobs_api.workflow], "status": ["failed"]}
    body = {"action": "retry", "filter": wanted, "reason": "the engine is repaired"}
    started = await jobs_api.post("/api/admin/bulk-actions", body)
    assert started.status_code == 201, started.text
    action = started.json()
    assert (action["state"], action["created_by_email"]) == ("running", jobs_api.admin.user.email)
    assert action["filter"]["workflow"] == [jobs_api.workflow]
    viewer = await jobs_api.people.user(role=Role.VIEWER)
    path = f"bulk-actions/{action['id']}"

    async def ended() -> bool:
        return bool((await get(jobs_api, path, viewer))["state"] == "completed")

    await until(ended)
    shown = await get(jobs_api, path, viewer)
    assert (shown["total"], shown["done"], shown["refused"], shown["untouched"]) == (2, 2, 0, 0)
    assert (await get(jobs_api, "bulk-actions", viewer, limit=1))["items"][0]["id"] == action["id"]
    assert await listed(jobs_api, status="queued") == jobs[::-1]
    stop = await jobs_api.client.post(f"/api/admin/{path}/stop", headers=viewer.headers)
    assert_refused(stop, 403, "forbidden")
    # The user sees that an operator did it, not who it was.
    events = await jobs_api.client.get(f"/api/ai-jobs/{jobs[0]}/events", headers=ann.headers)
    [retried] = [event for event in events.json()["items"] if event["from_status"] == "failed"]
    assert (retried["actor"], retried["reason"]) == ("admin", "the engine is repaired")


async def test_a_repeated_bulk_action_with_the_same_key_is_started_once(jobs_api: JobsApi) -> None:
    body: dict[str, Any] = {"action": "cancel", "filter": {"workflow": [jobs_api.workflow]}, "reason": "no power"}
    other = await jobs_api.people.user(role=Role.OPERATOR)

    async def start(change: dict[str, Any], key: str = "stop-all", person: Person = jobs_api.admin) -> httpx.Response:
        headers = person.headers | {"Idempotency-Key": key}
        return await jobs_api.client.post("/api/admin/bulk-actions", json=body | change, headers=headers)

    earlier = len((await get(jobs_api, "bulk-actions"))["items"])
    first = await start({})
    assert (first.status_code, "idempotent-replayed" in first.headers) == (201, False)
    again = await start({})
    assert (again.status_code, again.headers["idempotent-replayed"]) == (200, "true")
    assert again.json()["id"] == first.json()["id"]
    for change, fields in (
        ({"reason": "rain"}, ["reason"]),
        ({"filter": {}}, ["filter.workflow"]),
        ({"action": "retry"}, ["action", "filter.status"]),
    ):
        refused = assert_refused(await start(change), 422, "idempotency_key_reused", *fields)
        assert refused["bulk_action_id"] == first.json()["id"]
    # Another key, or the same one of another operator, starts another action.
    assert [(await start({}, "b")).status_code, (await start({}, person=other)).status_code] == [201, 201]
    assert len((await get(jobs_api, "bulk-actions"))["items"]) == earlier + 3


async def test_a_viewer_does_not_search_the_texts_of_users(jobs_api: JobsApi, ann: Person) -> None:
    job = await jobs_api.submit(ann)
    pool = await jobs_api.core.databases.pool("pool_1")
    async with pool.connection() as connection:
        await connection.execute(
            "INSERT INTO job_descriptions (tenant_id, user_id, job_id, title, search_text) "
            "VALUES ($1, $2, $3, 'Clay', 'clay secret fox') ON CONFLICT (user_id, job_id) DO UPDATE SET "
            "title = 'Clay', search_text = 'clay secret fox'",
            ann.tenant.id,
            ann.user.id,
            job["id"],
        )
    viewer = await jobs_api.people.user(role=Role.VIEWER)
    own = {"workflow": jobs_api.workflow}
    assert [each["id"] for each in (await get(jobs_api, "jobs", q="secret", **own))["items"]] == [job["id"]]
    assert (await get(jobs_api, "jobs", viewer, q="secret", **own))["items"] == []
    assert len((await get(jobs_api, "jobs", viewer, q="clay", **own))["items"]) == 1


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        ({"status": "broken"}, "query.status.0"),
        ({"tenant_id": "x"}, "query.tenant_id"),
        ({"fingerprint": "xyz"}, "query.fingerprint"),
        ({"run_id": "xyz"}, "query.run_id"),
        ({"created_from": "1700000000"}, "query.created_from"),
        ({"job_id": ["00000000-0000-7000-8000-000000000000"] * 501}, "query.job_id"),
    ],
)
async def test_an_impossible_filter_is_refused_with_its_field(
    jobs_api: JobsApi, wanted: dict[str, Any], field: str
) -> None:
    response = await jobs_api.client.get("/api/admin/jobs", params=wanted, headers=jobs_api.admin.headers)
    assert_refused(response, 422, "invalid_request", field)


async def test_an_unknown_action_or_error_is_not_found(jobs_api: JobsApi) -> None:
    for path in (f"bulk-actions/{uuid4()}", "job-errors/0123456789abcdef", f"jobs/{uuid4()}/error-group"):
        response = await jobs_api.client.get(f"/api/admin/{path}", headers=jobs_api.admin.headers)
        assert_refused(response, 404, "not_found")


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"action": "delete"}, "action"),
        ({"filter": {"colour": "red"}}, "filter.colour"),
        ({"filter": {"status": ["completed"]}}, "filter.status"),
        ({"filter": {"created_from": 1700000000}}, "filter.created_from"),
        ({"priority": 5}, "priority"),
        ({"action": "set_priority"}, "priority"),
        ({"reason": "a\nb"}, "reason"),
    ],
)
async def test_an_impossible_bulk_action_is_refused_with_its_field(
    jobs_api: JobsApi, change: dict[str, Any], field: str
) -> None:
    response = await jobs_api.post("/api/admin/bulk-actions", {"action": "retry", "filter": {}, **change})
    assert_refused(response, 422, "invalid_request", field)


@pytest.mark.parametrize("text", ["\ud800", "a\x00b", "\x7f"])
async def test_texts_that_postgresql_cannot_store_are_refused(jobs_api: JobsApi, text: str) -> None:
    for body in ({"filter": {"q": text}}, {"filter": {}, "reason": text}, {"filter": {"worker_id": text}}):
        response = await jobs_api.post("/api/admin/bulk-actions", {"action": "retry", **body})
        assert response.status_code in (400, 422), response.text


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
async def test_times_at_the_ends_of_the_calendar_cause_no_server_error(jobs_api: JobsApi, time: str) -> None:
    for path, names in (("jobs", ("created_from", "created_to")), ("job-errors", ("since", "until"))):
        for name in names:
            response = await jobs_api.client.get(
                f"/api/admin/{path}", params={name: time}, headers=jobs_api.admin.headers
            )
            assert response.status_code in (200, 422), response.text
