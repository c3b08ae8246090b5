"""Admins' views of the running installation and their actions, each with its line in the audit log."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from callsheet.dispatch.operate import lists
from callsheet.jobs.operate import operations as operations_module
from callsheet.media.storage.owner import mark
from callsheet.media.sweeper import MediaSweeper
from callsheet.toolbox.ids import uuid7
from tests.api.conftest import Started
from tests.support.http.accounts import People, Person
from tests.support.http.responses import assert_refused
from tests.support.http.worker_harness import OUTPUT, WorkerHarness
from tests.support.jobs.core import Member, job_ids
from tests.support.waiting import until

ABSENT = 2**61


@pytest.fixture
async def ann(worker_harness: WorkerHarness) -> Person:
    return await worker_harness.jobs_api.person("pool_2", tokens=1000)


async def ask(worker_harness: WorkerHarness, method: str, path: str, **options: Any) -> httpx.Response:
    return await worker_harness.client.request(
        method, f"/api/admin/{path}", headers=worker_harness.jobs_api.admin.headers, **options
    )


async def done(worker_harness: WorkerHarness, method: str, path: str, **options: Any) -> Any:
    response = await ask(worker_harness, method, path, **options)
    assert response.status_code == 200, response.text
    return response.json()


async def audited(
    worker_harness: WorkerHarness, subject_type: str, subject_id: object
) -> list[tuple[str, str, dict[str, Any]]]:
    page = await done(
        worker_harness, "GET", "audit-logs", params={"subject_type": subject_type, "subject_id": str(subject_id)}
    )
    actor = f"admin:{worker_harness.jobs_api.admin.user.id}"
    assert all(entry["actor"] == actor for entry in page["items"])
    return [(entry["action"], entry["subject_type"], entry["details"]) for entry in page["items"]]


async def dispatch_of(worker_harness: WorkerHarness, person: Person, job: dict[str, Any]) -> dict[str, Any]:
    shown = await done(worker_harness, "GET", f"tenants/{person.tenant.id}/jobs/{job['id']}")
    dispatch: dict[str, Any] = shown["dispatch"]
    return dispatch


async def test_the_queue_is_listed_with_filters_and_by_pages(worker_harness: WorkerHarness, ann: Person) -> None:
    jobs = [await worker_harness.engine_job(ann) for _ in range(3)]
    worker = await worker_harness.worker()
    leased = await worker.job()
    own = {"workflow": worker_harness.jobs_api.workflow}

    async def listed(**filters: Any) -> list[str]:
        page = await done(worker_harness, "GET", "dispatches", params={**own, **filters})
        assert page["next_cursor"] is None
        return [one["job_id"] for one in page["items"]]

    newest_first = [job["id"] for job in reversed(jobs)]
    assert await listed() == newest_first
    assert await listed(status="queued") == newest_first[:2]
    assert await listed(status="leased") == newest_first[2:]
    assert await listed(status="waiting") == []
    assert await listed(worker_id=worker.worker_id) == newest_first[2:]
    assert await listed(worker_id="nobody") == []
    assert await listed(tenant_id=ann.tenant.id) == newest_first
    assert await listed(tenant_id=uuid4()) == []
    assert await listed(workflow="no-such") == []
    first = await done(worker_harness, "GET", "dispatches", params={**own, "limit": 2})
    assert [one["job_id"] for one in first["items"]] == newest_first[:2]
    assert await listed(cursor=first["next_cursor"], limit=2) == newest_first[2:]
    [held] = (await done(worker_harness, "GET", "dispatches", params={**own, "status": "leased"}))["items"]
    assert (held["dispatch_id"], held["worker_id"], held["attempts"], held["tenant"]) == (
        leased["dispatch_id"],
        worker.worker_id,
        1,
        ann.tenant.slug,
    )
    assert "lease_token" not in held


async def test_the_dispatch_history_is_listed(worker_harness: WorkerHarness, ann: Person) -> None:
    worker = await worker_harness.worker()
    failed, canceled = await worker_harness.engine_job(ann), await worker_harness.engine_job(ann)
    await worker.fail(await worker.job(), "It broke.")
    await worker_harness.jobs_api.post_as(ann, f"/api/ai-jobs/{canceled['id']}/cancel")
    own = {"workflow": worker_harness.jobs_api.workflow}
    page = await done(worker_harness, "GET", "dispatches", params={**own, "finished": True})
    assert [(one["job_id"], one["status"]) for one in page["items"]] == [
        (canceled["id"], "canceled"),
        (failed["id"], "failed"),
    ]
    for filters in ({"status": "failed"}, {"finished": True, "worker_id": worker.worker_id}):
        [one] = (await done(worker_harness, "GET", "dispatches", params={**own, **filters}))["items"]
        assert (one["job_id"], one["last_error"]) == (failed["id"], "It broke.")
    dispatch_id = one["dispatch_id"]
    assert await done(worker_harness, "GET", f"dispatches/{dispatch_id}") == one


async def test_a_filter_that_matches_few_rows_returns_short_pages_with_a_cursor(
    worker_harness: WorkerHarness, ann: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = [await worker_harness.engine_job(ann)]
    wanted += [await worker_harness.engine_job(ann)]
    monkeypatch.setattr(lists, "MAX_INSPECTED", 2)
    monkeypatch.setattr(operations_module, "MAX_INSPECTED", 2)
    bob = await worker_harness.jobs_api.person(tenant_of=ann, tokens=100)
    for _ in range(5):
        await worker_harness.jobs_api.submit(bob)
    for path, filters in (
        ("dispatches", {"tenant_id": ann.tenant.id, "workflow": worker_harness.jobs_api.workflow}),
        (f"tenants/{ann.tenant.id}/jobs", {"user_id": ann.user.id}),
    ):
        found, cursor = [], None
        while True:
            page = await done(worker_harness, "GET", path, params={**filters, **({"cursor": cursor} if cursor else {})})
            found += page["items"]
            cursor = page["next_cursor"]
            if cursor is None or len(found) >= 7:
                break
        ids = [one.get("job_id", one.get("id")) for one in found]
        assert ids[-2:] == [job["id"] for job in reversed(wanted)]


async def test_a_requeue_takes_a_leased_dispatch_from_its_worker_and_counts_no_attempt(
    worker_harness: WorkerHarness, ann: Person
) -> None:
    worker, other = await worker_harness.worker(), await worker_harness.worker()
    job = await worker_harness.engine_job(ann)
    leased = await worker.job()
    path = f"dispatches/{leased['dispatch_id']}/requeue"
    back = await done(worker_harness, "POST", path, json={"reason": "the card is broken"})
    assert (back["status"], back["attempts"], back["worker_id"]) == ("queued", 0, None)
    assert (await worker_harness.shown(ann, job["id"]))["status"] == "queued"
    assert await audited(worker_harness, "dispatch", leased["dispatch_id"]) == [
        (
            "dispatch.requeue",
            "dispatch",
            {"job_id": job["id"], "worker_id": worker.worker_id, "reason": "the card is broken"},
        )
    ]
    events = (await worker_harness.jobs_api.get(ann, f"/api/ai-jobs/{job['id']}/events")).json()["items"]
    # Which operator it was is for operators: the audit log above has it.
    assert events[-1]["actor"] == "admin"
    assert worker_harness.jobs_api.admin.user.id not in {event["actor"] for event in events}
    again = await other.job()
    assert again["dispatch_id"] == leased["dispatch_id"]
    # The worker that held the lease before is ordered to stop.
    assert_refused(await worker.heartbeat(leased), 409, "lease_lost")


async def test_a_dispatch_without_a_worker_is_not_requeued(worker_harness: WorkerHarness, ann: Person) -> None:
    job = await worker_harness.engine_job(ann)
    dispatch_id = (await dispatch_of(worker_harness, ann, job))["dispatch_id"]
    path = f"dispatches/{dispatch_id}/requeue"
    assert_refused(await ask(worker_harness, "POST", path), 409, "wrong_state")
    worker = await worker_harness.worker()
    leased = await worker.job()
    later = (datetime.now(UTC) + timedelta(days=365)).isoformat()
    await worker.defer(leased, "prediction-1", later)
    problem = assert_refused(await ask(worker_harness, "POST", path), 409, "wrong_state")
    assert "waiting" in problem["detail"]
    await worker_harness.jobs_api.post_as(ann, f"/api/ai-jobs/{job['id']}/cancel")
    problem = assert_refused(await ask(worker_harness, "POST", path), 409, "wrong_state")
    assert "canceled" in problem["detail"]
    assert await audited(worker_harness, "dispatch", dispatch_id) == []


async def test_canceling_a_dispatch_cancels_its_job(worker_harness: WorkerHarness, ann: Person) -> None:
    job = await worker_harness.engine_job(ann)
    before = await worker_harness.balance(ann)
    dispatch_id = (await dispatch_of(worker_harness, ann, job))["dispatch_id"]
    closed = await done(worker_harness, "POST", f"dispatches/{dispatch_id}/cancel", json={"reason": "abuse"})
    assert closed["status"] == "canceled"
    assert (await worker_harness.shown(ann, job["id"]))["status"] == "canceled"
    assert await worker_harness.balance(ann) == before + 7
    [(action, _, details)] = await audited(worker_harness, "dispatch", dispatch_id)
    assert (action, details) == ("dispatch.cancel", {"job_id": job["id"], "reason": "abuse"})
    assert_refused(await ask(worker_harness, "POST", f"dispatches/{dispatch_id}/cancel"), 409, "wrong_state")


async def test_a_leased_dispatch_that_is_canceled_keeps_its_slot_until_its_worker_reports(
    worker_harness: WorkerHarness, ann: Person
) -> None:
    worker = await worker_harness.worker()
    await worker_harness.engine_job(ann)
    leased = await worker.job()
    shown = await done(worker_harness, "POST", f"dispatches/{leased['dispatch_id']}/cancel")
    assert (shown["status"], shown["cancel_requested_at"] is not None) == ("leased", True)
    assert (await worker.heartbeat(leased)).json()["cancel_requested"] is True


async def test_a_priority_moves_a_job_ahead_and_is_kept_for_its_retries(
    worker_harness: WorkerHarness, ann: Person
) -> None:
    first, second = await worker_harness.engine_job(ann), await worker_harness.engine_job(ann)
    dispatch_id = (await dispatch_of(worker_harness, ann, second))["dispatch_id"]
    moved = await done(worker_harness, "POST", f"dispatches/{dispatch_id}/priority", json={"priority": 9})
    assert (moved["priority"], moved["status"]) == (9, "queued")
    assert [(await worker_harness.shown(ann, job["id"]))["queue_position"] for job in (first, second)] == [2, 1]
    assert (await worker_harness.shown(ann, second["id"]))["priority"] == 9
    worker = await worker_harness.worker()
    leased = await worker.job()
    assert leased["job_id"] == second["id"]
    assert await audited(worker_harness, "dispatch", dispatch_id) == [
        ("dispatch.priority", "dispatch", {"job_id": second["id"], "old_priority": 0, "priority": 9})
    ]
    problem = assert_refused(
        await ask(worker_harness, "POST", f"dispatches/{dispatch_id}/priority", json={"priority": 1}),
        409,
        "wrong_state",
    )
    assert "leased" in problem["detail"]
    await worker.fail(leased, "It broke.")
    await worker_harness.jobs_api.post_as(ann, f"/api/ai-jobs/{second['id']}/retry")
    assert (await dispatch_of(worker_harness, ann, second))["priority"] == 9


@pytest.mark.parametrize("action", ["", "/requeue", "/cancel", "/priority"])
async def test_an_unknown_dispatch_is_not_found(worker_harness: WorkerHarness, action: str) -> None:
    body = {"json": {"priority": 1}} if action == "/priority" else {}
    method = "POST" if action else "GET"
    assert_refused(await ask(worker_harness, method, f"dispatches/{ABSENT}{action}", **body), 404, "not_found")


@pytest.mark.few_forms
@pytest.mark.parametrize(
    "body", [{}, {"priority": 2**31}, {"priority": -(2**31) - 1}, {"priority": "high"}, {"priority": True}]
)
async def test_an_invalid_priority_is_refused(worker_harness: WorkerHarness, body: dict[str, Any]) -> None:
    assert_refused(
        await ask(worker_harness, "POST", f"dispatches/{ABSENT}/priority", json=body),
        422,
        "invalid_request",
        "priority",
    )


async def test_an_admin_sees_the_jobs_of_a_tenant_and_of_a_user(worker_harness: WorkerHarness, ann: Person) -> None:
    bob = await worker_harness.jobs_api.person(tenant_of=ann, tokens=100)
    mine, theirs = await worker_harness.engine_job(ann), await worker_harness.jobs_api.submit(bob)
    of_tenant = await done(worker_harness, "GET", f"tenants/{ann.tenant.id}/jobs")
    assert [job["id"] for job in of_tenant["items"]] == [theirs["id"], mine["id"]]
    for path, params in (
        (f"users/{ann.user.id}/jobs", {}),
        (f"tenants/{ann.tenant.id}/jobs", {"user_id": ann.user.id}),
        (f"users/{ann.user.id}/jobs", {"status": "queued"}),
    ):
        [job] = (await done(worker_harness, "GET", path, params=params))["items"]
        assert (job["id"], job["user_id"], job["tenant_id"]) == (mine["id"], str(ann.user.id), str(ann.tenant.id))
        assert (job["queue_position"], job["payload"]) == (1, None)
    for path in (f"users/{ann.user.id}/jobs", f"tenants/{ann.tenant.id}/jobs"):
        assert (await done(worker_harness, "GET", path, params={"status": "failed"}))["items"] == []
        first = await done(worker_harness, "GET", path, params={"limit": 1})
        rest = await done(worker_harness, "GET", path, params={"cursor": first["items"][0]["id"]})
        assert first["items"][0]["id"] not in [job["id"] for job in rest["items"]]
    assert_refused(await ask(worker_harness, "GET", f"users/{uuid4()}/jobs"), 404, "not_found")
    assert_refused(await ask(worker_harness, "GET", f"tenants/{uuid4()}/jobs"), 404, "not_found")


async def test_only_an_admin_sees_the_whole_traceback_of_a_failed_job(
    worker_harness: WorkerHarness, ann: Person
) -> None:
    worker = await worker_harness.worker()
    job = await worker_harness.engine_job(ann)
    error = {"type": "oom", "message": "Out of memory.", "details": {"node": 4}, "traceback": "Traceback: line 1"}
    await worker.fail(await worker.job(), "Out of memory.", error=error)
    shown = await done(worker_harness, "GET", f"tenants/{ann.tenant.id}/jobs/{job['id']}")
    assert {**shown["full_error"], "details": error["details"]} == error
    assert shown["full_error"]["details"]["node"] == 4
    assert shown["error"] == {"type": "oom", "message": "Out of memory."}
    assert (shown["dispatch"]["status"], shown["payload"]["output_node_id"]) == ("failed", "9")
    assert "Traceback" not in str(await worker_harness.shown(ann, job["id"]))
    other = await worker_harness.jobs_api.person("pool_1")
    # The right job, asked for at another tenant.
    assert_refused(await ask(worker_harness, "GET", f"tenants/{other.tenant.id}/jobs/{job['id']}"), 404, "not_found")


@pytest.mark.parametrize("pool", ["pool_1", "pool_2"])
async def test_an_admin_finds_and_retries_a_job_of_any_tenant_by_its_id(
    worker_harness: WorkerHarness, pool: str
) -> None:
    owner = await worker_harness.jobs_api.person(pool, tokens=100)
    worker = await worker_harness.worker()
    job = await worker_harness.engine_job(owner)
    await worker.fail(await worker.job(), "It broke.")
    shown = await done(worker_harness, "GET", f"jobs/{job['id']}")
    assert shown == await done(worker_harness, "GET", f"tenants/{owner.tenant.id}/jobs/{job['id']}")
    retried = await done(worker_harness, "POST", f"jobs/{job['id']}/retry", json={"reason": "our fault"})
    assert (retried["status"], retried["charge_cycle"], retried["tenant_id"]) == ("queued", 2, str(owner.tenant.id))
    assert_refused(await ask(worker_harness, "POST", f"jobs/{job['id']}/retry"), 409, "invalid_transition")
    assert (await done(worker_harness, "POST", f"jobs/{job['id']}/cancel"))["status"] == "canceled"
    for action in ("", "/cancel", "/retry"):
        method = "POST" if action else "GET"
        assert_refused(await ask(worker_harness, method, f"jobs/{uuid4()}{action}"), 404, "not_found")


async def test_an_id_that_two_tenants_share_is_refused_as_ambiguous(worker_harness: WorkerHarness, ann: Person) -> None:
    other, job_id = await worker_harness.jobs_api.person("pool_2", tokens=100), uuid7()
    for person in (ann, other):
        pool = await worker_harness.plane.databases.pool(person.tenant.pool)
        with job_ids(job_id):
            await worker_harness.plane.rooms.jobs.submission.submit(
                worker_harness.jobs_api.core.new_job(Member(person.tenant.id, person.user.id, pool))
            )
    response = await ask(worker_harness, "POST", f"jobs/{job_id}/cancel")
    assert_refused(response, 409, "conflict")
    assert "Name the tenant" in response.text


async def test_an_admin_cancels_and_retries_jobs_past_the_users_cap(worker_harness: WorkerHarness, ann: Person) -> None:
    worker = await worker_harness.worker()
    job = await worker_harness.engine_job(ann)
    await worker.fail(await worker.job(), "It broke.")
    for _ in range(5):
        await worker_harness.engine_job(ann)
    response = await worker_harness.jobs_api.post_as(ann, f"/api/ai-jobs/{job['id']}/retry")
    assert_refused(response, 429, "too_many_active_jobs")
    path = f"tenants/{ann.tenant.id}/jobs/{job['id']}"
    retried = await done(worker_harness, "POST", f"{path}/retry", json={"reason": "our fault"})
    assert (retried["status"], retried["charge_cycle"], retried["dispatch"]["status"]) == ("queued", 2, "queued")
    assert_refused(await ask(worker_harness, "POST", f"{path}/retry"), 409, "invalid_transition")
    canceled = await done(worker_harness, "POST", f"{path}/cancel")
    assert (canceled["status"], canceled["dispatch"]["status"]) == ("canceled", "canceled")
    assert_refused(await ask(worker_harness, "POST", f"{path}/cancel"), 409, "invalid_transition")
    # Newest first; what was refused is not there.
    assert [(action, details) for action, _, details in await audited(worker_harness, "job", job["id"])] == [
        ("job.cancel", {"reason": None}),
        ("job.retry", {"reason": "our fault"}),
        ("job.submit", {"user_id": str(ann.user.id), "cost": 7}),
    ]
    for action in ("", "/cancel", "/retry"):
        absent = f"tenants/{ann.tenant.id}/jobs/{uuid4()}{action}"
        assert_refused(await ask(worker_harness, "POST" if action else "GET", absent), 404, "not_found")


async def test_limits_are_set_listed_and_removed(worker_harness: WorkerHarness) -> None:
    name = f"provider/{worker_harness.jobs_api.workflow}"
    for limit in (2, 0, None):
        response = await ask(
            worker_harness, "PUT", "concurrency-limits", json={"identifier": name, "max_concurrent": limit}
        )
        assert (response.status_code, response.content) == (204, b"")
        page = await done(worker_harness, "GET", "concurrency-limits", params={"cursor": name[:-1], "limit": 1})
        found = [one for one in page["items"] if one["identifier"] == name]
        # Without a limit and without jobs there is nothing to list.
        expected = [{"identifier": name, "max_concurrent": limit, "in_use": 0}] if limit is not None else []
        assert found == expected
    assert [
        details["max_concurrent"] for _, _, details in await audited(worker_harness, "concurrency_limit", name)
    ] == [
        None,
        0,
        2,
    ]


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"identifier": "x"}, "max_concurrent"),
        ({"identifier": "x", "max_concurrent": -1}, "max_concurrent"),
        # It would be 0, and pause the provider.
        ({"identifier": "x", "max_concurrent": False}, "max_concurrent"),
        ({"identifier": "x", "max_concurrent": 2**31}, "max_concurrent"),
        ({"identifier": "", "max_concurrent": 1}, "identifier"),
        ({"identifier": "a\0b", "max_concurrent": 1}, "identifier"),
        ({"identifier": "x", "max_concurrent": 1, "more": 1}, "more"),
    ],
)
async def test_an_invalid_limit_is_refused(worker_harness: WorkerHarness, body: dict[str, Any], field: str) -> None:
    assert_refused(await ask(worker_harness, "PUT", "concurrency-limits", json=body), 422, "invalid_request", field)


async def test_metrics_count_waiting_running_and_finished_jobs(worker_harness: WorkerHarness, ann: Person) -> None:
    worker = await worker_harness.worker(max_concurrency=3)
    await worker_harness.engine_job(ann)
    leased = await worker.job()
    await worker.heartbeat(leased, run_started=True)
    await worker.deliver(leased, OUTPUT)
    await worker.complete(leased, output={"size": len(OUTPUT), "mime_type": "video/mp4"})
    for _ in range(2):
        await worker_harness.engine_job(ann)
    await worker.fail(await worker.job(), "It broke.")
    await worker_harness.engine_job(ann)
    await worker.job()
    metrics = await done(worker_harness, "GET", "metrics")
    [own] = [one for one in metrics["workflows"] if one["workflow"] == worker_harness.jobs_api.workflow]
    counts = ("queued", "delayed", "leased", "waiting", "live_workers", "live_slots", "busy_slots")
    assert [own[name] for name in counts] == [1, 0, 1, 0, 1, 3, 1]
    assert (own["completed_last_hour"], own["failed_last_hour"]) == (1, 1)
    assert own["oldest_wait_seconds"] >= 0
    assert own["average_seconds"] == own["p95_seconds"] >= 0
    assert metrics["live_workers"] >= 1
    assert metrics["reconciled"]["missing_dispatch"] == 0
    assert {"relay", "reaper", "reconciler"} <= {loop["name"] for loop in metrics["loops"]}


@pytest.mark.thorough
async def test_storage_of_another_installation_is_an_alert(started: Started) -> None:
    async with started() as (plane, client):
        await plane.loops.stop()
        admin, other = await People(plane.rooms.identity.accounts, plane.rooms.identity.keys).admin(), uuid4()
        await mark(plane.rooms.storage, other)
        [sweeper] = [loop for loop in plane.loops if isinstance(loop, MediaSweeper)]
        assert sweeper._owner is not None
        # Half a minute after the check at the start.
        sweeper._owner._checked = float("-inf")
        assert not await sweeper.tick(datetime.now(UTC))
        [alert] = (await client.get("/api/admin/alerts", headers=admin.headers)).json()["alerts"]
        assert (alert["code"], alert["severity"]) == ("storage_not_owned", "critical")
        assert f"belongs to installation {other}" in alert["message"]


async def test_alerts_say_what_is_wrong_and_what_to_do(worker_harness: WorkerHarness, ann: Person) -> None:
    subject = f"{worker_harness.jobs_api.workflow} (production, self_hosted)"

    async def raised() -> set[str]:
        found = (await done(worker_harness, "GET", "alerts"))["alerts"]
        assert all(alert["message"] and alert["action"] for alert in found)
        return {
            alert["code"]
            for alert in found
            if alert["subject"] in (subject, f"paused-{worker_harness.jobs_api.workflow}")
        }

    assert await raised() == set()
    job = await worker_harness.engine_job(ann)
    assert await raised() == {"no_live_worker"}
    await worker_harness.worker()
    assert await raised() == set()
    await worker_harness.central(
        "UPDATE ai_job_dispatches SET created_at = created_at - interval '2 h' WHERE tenant_job_id = $1",
        UUID(job["id"]),
    )
    assert await raised() == {"long_wait"}
    await worker_harness.jobs_api.core.room.dispatch.limits.set(f"paused-{worker_harness.jobs_api.workflow}", 0, "test")
    assert await raised() == {"long_wait", "paused_limit"}


async def test_an_alert_names_a_workflow_that_crashes_engines_with_a_count(
    worker_harness: WorkerHarness, ann: Person
) -> None:
    async def named() -> list[str]:
        found = (await done(worker_harness, "GET", "alerts"))["alerts"]
        return [each["message"] for each in found if (each["code"], each["subject"]) == ("kills_engines", slug)]

    async def lose(kind: str) -> None:
        error = {"type": kind, "message": "gone", "retryable": True}
        assert (await worker.fail(await worker.job(), "gone", error=error)).status_code == 200
        await worker_harness.plane.rooms.jobs.dispatch.queue.promote(datetime.now(UTC) + timedelta(days=1))

    slug = worker_harness.jobs_api.workflow
    worker = await worker_harness.worker()
    await worker_harness.engine_job(ann)
    await lose("run_lost")
    await worker_harness.audited(worker, "registered", "leased", "failed")
    # Once may be a restart by hand.
    assert await named() == []
    await lose("engine_unreachable")
    await until(named)
    [message] = await named()
    assert f"Runs of {slug} during which the engine hung or crashed" in message
    assert ": 2, of 1 job." in message
    await lose("run_lost")

    async def counts_three() -> bool:
        return [": 3, of 1 job." in message for message in await named()] == [True]

    # Also of a job that has failed by then.
    await until(counts_three)
    await worker_harness.central(
        "UPDATE worker_audit_logs SET at = at - interval '25 hours' WHERE worker_id = $1", worker.worker_id
    )
    assert await named() == []


async def test_repairs_of_the_reconciler_are_counted_for_prometheus(worker_harness: WorkerHarness) -> None:
    text = (await worker_harness.client.get("/metrics")).text
    assert 'callsheet_reconciled_total{kind="missing_dispatch"} 0.0' in text
    assert 'callsheet_reconciled_total{kind="orphaned_dispatch"} 0.0' in text


async def test_changes_of_credits_tenants_and_users_are_in_the_audit_log(worker_harness: WorkerHarness) -> None:
    slug = f"audited-{worker_harness.jobs_api.workflow}"
    tenant = (await ask(worker_harness, "POST", "tenants", json={"slug": slug, "name": "Audited"})).json()
    body = {"tenant": slug, "email": f"{slug}@example.com", "password": "correct horse battery"}
    user = (await ask(worker_harness, "POST", "users", json=body)).json()
    credit = {"amount": 5, "provider_transaction_id": "payment-1"}
    for _ in range(2):
        await done(worker_harness, "POST", f"users/{user['id']}/credits", json=credit)
    assert [action for action, _, _ in await audited(worker_harness, "tenant", tenant["id"])] == ["tenant.create"]
    # The same payment twice is one credit, and one line.
    found = await audited(worker_harness, "user", user["id"])
    assert [(action, details) for action, _, details in found] == [
        ("wallet.credit", credit),
        ("user.create", {"email": body["email"], "role": "user"}),
    ]
    assert "password" not in str(found)
