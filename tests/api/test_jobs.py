"""Jobs over HTTP: admins submit them with a ready payload; users see, cancel and retry only their own jobs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.toolbox.ids import uuid7
from callsheet.wire.job_errors import UNKNOWN
from tests.support.http.accounts import People, Person
from tests.support.http.jobs_api import JobsApi
from tests.support.http.responses import assert_refused

numbers = itertools.count(1)


@pytest.fixture
async def jobs_api(plane: ControlPlane, client: httpx.AsyncClient, people: People) -> JobsApi:
    return await JobsApi.open(plane, client, people)


@pytest.fixture
async def ann(jobs_api: JobsApi) -> Person:
    return await jobs_api.person("pool_1", tokens=100)


async def test_an_admin_submits_a_job_for_a_user_and_the_user_sees_it(jobs_api: JobsApi, ann: Person) -> None:
    response = await jobs_api.post(
        "/api/admin/jobs", jobs_api.request(ann, cost=30, priority=3, payload={"n": [1, None, "☃"]})
    )
    assert response.status_code == 201
    job = response.json()
    assert "idempotent-replayed" not in response.headers
    assert {name: job[name] for name in ("kind", "status", "cost", "priority", "charge_cycle", "result", "error")} == {
        "kind": "effect",
        "status": "queued",
        "cost": 30,
        "priority": 3,
        "charge_cycle": 1,
        "result": None,
        "error": None,
    }
    shown = (await jobs_api.get(ann, f"/api/ai-jobs/{job['id']}")).json()
    assert shown == job | {"title": "A workflow"}
    assert (await jobs_api.get(ann, "/api/wallet")).json()["balance"] == 70


async def test_the_same_key_returns_the_same_job_marked_as_replayed(jobs_api: JobsApi, ann: Person) -> None:
    request = jobs_api.request(ann, idempotency_key="key-1")
    first = await jobs_api.post("/api/admin/jobs", request)
    again = await jobs_api.post("/api/admin/jobs", request)
    assert (first.status_code, again.status_code) == (201, 200)
    assert (first.headers.get("idempotent-replayed"), again.headers["idempotent-replayed"]) == (None, "true")
    assert again.json() == first.json()
    changed = await jobs_api.post("/api/admin/jobs", request | {"cost": 11})
    assert_refused(changed, 422, "idempotency_key_reused", "cost")
    # What is wrong with the request itself is said before the control plane looks at the key.
    shapeless = await jobs_api.post("/api/admin/jobs", request | {"cost": -1})
    assert_refused(shapeless, 422, "invalid_request", "cost")
    assert (await jobs_api.get(ann, "/api/wallet")).json()["balance"] == 90


async def test_a_refusal_for_too_few_tokens_or_too_many_jobs_has_the_numbers(jobs_api: JobsApi, ann: Person) -> None:
    poor = assert_refused(
        await jobs_api.post("/api/admin/jobs", jobs_api.request(ann, cost=101)), 402, "insufficient_tokens"
    )
    assert (poor["required_tokens"], poor["balance"]) == (101, 100)
    for _ in range(5):
        await jobs_api.submit(ann)
    many = assert_refused(await jobs_api.post("/api/admin/jobs", jobs_api.request(ann)), 429, "too_many_active_jobs")
    assert (many["active"], many["limit"]) == (5, 5)


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"workflow": "no-such-workflow"}, "workflow"),
        ({"workflow": "Not A Slug"}, "workflow"),
        ({"user_id": "01900000-0000-7000-8000-000000000000"}, "user_id"),
        ({"user_id": "x"}, "user_id"),
        ({"cost": -1}, "cost"),
        ({"cost": 2**53 + 1}, "cost"),
        ({"cost": 1.5}, "cost"),
        ({"priority": 2**31}, "priority"),
        ({"kind": "Not A Kind"}, "kind"),
        ({"idempotency_key": ""}, "idempotency_key"),
        ({"idempotency_key": "x" * 201}, "idempotency_key"),
        ({"idempotency_key": "a\0b"}, "idempotency_key"),
        ({"payload": []}, "payload"),
        ({"payload": {"a": {"b": ["x\0y"]}}}, "payload"),
        ({"payload": {"a\0": 1}}, "payload"),
        ({"payload": {"a": "\ud800"}}, "payload"),
        ({"payload": {"a": float("nan")}}, "payload"),
        ({"payload": {"a": [float("inf")]}}, "payload"),
        ({"surprise": 1}, "surprise"),
    ],
    ids=str,
)
async def test_a_bad_request_names_the_field_and_writes_nothing(
    jobs_api: JobsApi, ann: Person, change: dict[str, Any], field: str
) -> None:
    assert_refused(
        await jobs_api.post("/api/admin/jobs", jobs_api.request(ann) | change), 422, "invalid_request", field
    )
    assert (await jobs_api.get(ann, "/api/ai-jobs")).json() == {"items": [], "next_cursor": None}
    assert (await jobs_api.get(ann, "/api/wallet")).json()["balance"] == 100


async def test_an_unusual_but_valid_payload_is_stored_unchanged(jobs_api: JobsApi, ann: Person) -> None:
    odd = {"": {"\\u0000": "\\ud800", "deep": [[[[]]]]}, "huge": 10**400, "small": 1e-300, "quote": '"}{', "👻": None}
    job = await jobs_api.submit(ann, payload=odd)
    started = await jobs_api.start()
    assert (str(started.lease.job_id), started.payload) == (job["id"], odd)


async def test_a_disabled_workflow_accepts_no_jobs(jobs_api: JobsApi, ann: Person) -> None:
    slug = f"off-{next(numbers)}"
    await jobs_api.core.add_workflow(slug, active=False)
    refused = await jobs_api.post("/api/admin/jobs", jobs_api.request(ann, workflow=slug))
    assert_refused(refused, 422, "invalid_request", "workflow")


async def test_jobs_are_listed_newest_first_page_by_page_and_by_status(jobs_api: JobsApi, ann: Person) -> None:
    jobs = [await jobs_api.submit(ann) for _ in range(5)]
    await jobs_api.post_as(ann, f"/api/ai-jobs/{jobs[1]['id']}/cancel")
    seen: list[str] = []
    cursor = ""
    while cursor is not None:
        page = (await jobs_api.get(ann, f"/api/ai-jobs?limit=2{cursor and f'&cursor={cursor}'}")).json()
        assert len(page["items"]) <= 2
        seen += [job["id"] for job in page["items"]]
        cursor = page["next_cursor"]
    assert seen == [job["id"] for job in reversed(jobs)]
    canceled = (await jobs_api.get(ann, "/api/ai-jobs?status=canceled")).json()
    assert ([job["id"] for job in canceled["items"]], canceled["next_cursor"]) == ([jobs[1]["id"]], None)
    assert (await jobs_api.get(ann, "/api/ai-jobs?status=expired")).json()["items"] == []


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "query.limit"),
        ("limit=201", "query.limit"),
        ("limit=x", "query.limit"),
        ("cursor=x", "query.cursor"),
        ("status=gone", "query.status"),
    ],
)
async def test_an_invalid_list_request_is_refused(jobs_api: JobsApi, ann: Person, query: str, field: str) -> None:
    assert_refused(await jobs_api.get(ann, f"/api/ai-jobs?{query}"), 422, "invalid_request", field)


async def test_the_events_of_a_job_are_listed_oldest_first(jobs_api: JobsApi, ann: Person) -> None:
    job = await jobs_api.submit(ann)
    await jobs_api.core.complete(await jobs_api.start(), {"output": "o.mp4"})
    address = f"/api/ai-jobs/{job['id']}/events"
    events = (await jobs_api.get(ann, address)).json()["items"]
    assert [(event["seq"], event["event"], event["from_status"], event["to_status"]) for event in events] == [
        (1, "job.created", None, "pending"),
        (2, "job.transition", "pending", "queued"),
        (3, "job.transition", "queued", "processing"),
        (4, "job.transition", "processing", "completed"),
    ]
    assert {event["job_id"] for event in events} == {job["id"]}
    assert [event["actor"] for event in events] == ["admin", "relay", "worker", "worker"]
    page = (await jobs_api.get(ann, f"{address}?cursor=1&limit=2")).json()
    assert page == {"items": events[1:3], "next_cursor": "3"}
    assert (await jobs_api.get(ann, f"{address}?cursor=3&limit=1")).json() == {"items": events[3:], "next_cursor": None}
    assert (await jobs_api.get(ann, f"{address}?cursor=4")).json() == {"items": [], "next_cursor": None}
    assert_refused(await jobs_api.get(ann, f"{address}?cursor=-1"), 422, "invalid_request", "query.cursor")
    done = (await jobs_api.get(ann, f"/api/ai-jobs/{job['id']}")).json()
    assert (done["status"], done["result"]) == ("completed", {"output": "o.mp4"})
    assert done["completed_at"] >= done["started_at"] >= done["created_at"]


async def test_a_user_cancels_a_job_only_once(jobs_api: JobsApi, ann: Person) -> None:
    job = await jobs_api.submit(ann, cost=40)
    address = f"/api/ai-jobs/{job['id']}/cancel"
    canceled = await jobs_api.post_as(ann, address)
    assert (canceled.status_code, canceled.json()["status"]) == (200, "canceled")
    assert (await jobs_api.get(ann, "/api/wallet")).json()["balance"] == 100
    problem = assert_refused(await jobs_api.post_as(ann, address), 409, "invalid_transition")
    assert (problem["from_status"], problem["to_status"]) == ("canceled", "canceled")
    last = (await jobs_api.get(ann, f"/api/ai-jobs/{job['id']}/events")).json()["items"][-1]
    assert (last["event"], last["actor"]) == ("job.transition_denied", f"user:{ann.user.id}")


async def test_a_user_sees_why_a_job_failed_but_no_internals_and_may_retry(jobs_api: JobsApi, ann: Person) -> None:
    job = await jobs_api.submit(ann, cost=40)
    address = f"/api/ai-jobs/{job['id']}"
    assert_refused(await jobs_api.post_as(ann, f"{address}/retry"), 409, "invalid_transition")
    await jobs_api.core.fail(await jobs_api.start())
    failed = await jobs_api.get(ann, address)
    assert failed.json()["error"] == {"type": "engine_error", "message": UNKNOWN}
    assert "Traceback" not in failed.text
    assert "Traceback" not in (await jobs_api.get(ann, f"{address}/events")).text
    again = (await jobs_api.post_as(ann, f"{address}/retry")).json()
    assert (again["status"], again["charge_cycle"], again["error"]) == ("queued", 2, None)
    assert (await jobs_api.get(ann, "/api/wallet")).json()["balance"] == 60


async def test_g5_a_retry_with_the_same_header_is_charged_once(jobs_api: JobsApi, ann: Person) -> None:
    job = await jobs_api.submit(ann, cost=10)
    await jobs_api.core.fail(await jobs_api.start())
    operators = (f"/api/admin/jobs/{job['id']}", f"/api/admin/tenants/{ann.tenant.id}/jobs/{job['id']}")
    for path, person in ((f"/api/ai-jobs/{job['id']}", ann), *((path, jobs_api.admin) for path in operators)):
        headers = {**person.headers, "Idempotency-Key": path}
        first = await jobs_api.client.post(f"{path}/retry", headers=headers)
        assert (first.status_code, "idempotent-replayed" in first.headers) == (200, False)
        await jobs_api.core.fail(await jobs_api.start())
        again = await jobs_api.client.post(f"{path}/retry", headers=headers)
        assert (again.status_code, again.headers["idempotent-replayed"]) == (200, "true")
        assert (again.json()["status"], again.json()["charge_cycle"]) == ("failed", first.json()["charge_cycle"])
    lines = (await jobs_api.get(ann, "/api/wallet/transactions")).json()["items"]
    assert [line["type"] for line in lines].count("JOB_RESERVE") == 4
    audit = (await jobs_api.get(jobs_api.admin, "/api/admin/audit-logs")).json()["items"]
    assert [line["action"] for line in audit].count("job.retry") == 2
    # A key of another job is refused, and named.
    other = await jobs_api.submit(ann, cost=10)
    await jobs_api.core.fail(await jobs_api.start())
    used = {**ann.headers, "Idempotency-Key": f"/api/ai-jobs/{job['id']}"}
    refused = await jobs_api.client.post(f"/api/ai-jobs/{other['id']}/retry", headers=used)
    problem = assert_refused(refused, 422, "idempotency_key_reused", "header.idempotency-key")
    assert job["id"] in problem["detail"]
    long = {**ann.headers, "Idempotency-Key": "x" * 201}
    refused = await jobs_api.client.post(f"/api/ai-jobs/{other['id']}/retry", headers=long)
    assert_refused(refused, 422, "invalid_request", "header.idempotency-key")


async def test_a_retry_is_refused_like_a_submit(jobs_api: JobsApi, ann: Person) -> None:
    job = await jobs_api.submit(ann, cost=60)
    await jobs_api.core.fail(await jobs_api.start())
    for _ in range(5):
        await jobs_api.submit(ann, cost=10)
    address = f"/api/ai-jobs/{job['id']}/retry"
    poor = assert_refused(await jobs_api.post_as(ann, address), 402, "insufficient_tokens")
    assert (poor["required_tokens"], poor["balance"]) == (60, 50)
    await jobs_api.credit(ann, 10)
    assert_refused(await jobs_api.post_as(ann, address), 429, "too_many_active_jobs")


ADDRESSES = [("GET", ""), ("GET", "/events"), ("GET", "/stream"), ("POST", "/cancel"), ("POST", "/retry")]


@pytest.mark.few_forms
@pytest.mark.parametrize(("method", "rest"), ADDRESSES)
async def test_a_job_of_another_user_is_not_found(jobs_api: JobsApi, ann: Person, method: str, rest: str) -> None:
    job = await jobs_api.submit(ann)
    strangers = [
        await jobs_api.person(tenant_of=ann),
        await jobs_api.person("pool_1"),
        await jobs_api.person("pool_2"),
        jobs_api.admin,
    ]
    for stranger in strangers:
        response = await jobs_api.client.request(method, f"/api/ai-jobs/{job['id']}{rest}", headers=stranger.headers)
        assert_refused(response, 404, "not_found")
    unknown = await jobs_api.client.request(method, f"/api/ai-jobs/{uuid7()}{rest}", headers=ann.headers)
    assert_refused(unknown, 404, "not_found")
    nonsense = await jobs_api.client.request(method, f"/api/ai-jobs/x{rest}", headers=ann.headers)
    assert_refused(nonsense, 422, "invalid_request", "path.job_id")
    nobody = await jobs_api.client.request(method, f"/api/ai-jobs/{job['id']}{rest}")
    assert_refused(nobody, 401, "not_authenticated")
    events = (await jobs_api.get(ann, f"/api/ai-jobs/{job['id']}/events")).json()["items"]
    assert [event["event"] for event in events] == ["job.created", "job.transition"]


async def test_lists_show_no_jobs_of_other_users(jobs_api: JobsApi, ann: Person) -> None:
    await jobs_api.submit(ann)
    for stranger in (await jobs_api.person(tenant_of=ann), await jobs_api.person("pool_2")):
        assert (await jobs_api.get(stranger, "/api/ai-jobs")).json()["items"] == []
        assert (await jobs_api.get(stranger, "/api/wallet/transactions")).json()["items"] == []
        assert (await jobs_api.get(stranger, "/api/wallet")).json()["balance"] == 0


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/api/admin/jobs"), ("POST", "/api/admin/users/01900000-0000-7000-8000-000000000000/credits")],
)
async def test_only_admins_may_call_admin_routes(jobs_api: JobsApi, ann: Person, method: str, path: str) -> None:
    body = jobs_api.request(ann) if path.endswith("jobs") else {"amount": 5, "provider_transaction_id": "p"}
    assert_refused(await jobs_api.client.request(method, path, json=body), 401, "not_authenticated")
    assert_refused(await jobs_api.client.request(method, path, json=body, headers=ann.headers), 403, "forbidden")


async def test_an_admin_credits_a_user_and_a_repeated_payment_is_credited_once(jobs_api: JobsApi) -> None:
    for pool in ("pool_1", "pool_2"):
        ann = await jobs_api.person(pool)
        address = f"/api/admin/users/{ann.user.id}/credits"
        body = {"amount": 25, "provider_transaction_id": "stripe-1"}
        assert (await jobs_api.post(address, body)).json() == {"balance": 25, "replayed": False}
        assert (await jobs_api.post(address, body)).json() == {"balance": 25, "replayed": True}
        other = await jobs_api.post(address, body | {"amount": 26})
        assert_refused(other, 409, "conflict", "provider_transaction_id")
        assert (await jobs_api.get(ann, "/api/wallet")).json()["balance"] == 25


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"amount": 0}, "amount"),
        ({"amount": -5}, "amount"),
        ({"amount": 2**53 + 1}, "amount"),
        ({"amount": "many"}, "amount"),
        ({"provider_transaction_id": ""}, "provider_transaction_id"),
        ({"provider_transaction_id": "a\0"}, "provider_transaction_id"),
        ({"currency": "EUR"}, "currency"),
    ],
    ids=str,
)
async def test_a_bad_credit_is_refused(jobs_api: JobsApi, ann: Person, change: dict[str, Any], field: str) -> None:
    body = {"amount": 25, "provider_transaction_id": "stripe-1", **change}
    response = await jobs_api.post(f"/api/admin/users/{ann.user.id}/credits", body)
    assert_refused(response, 422, "invalid_request", field)
    assert (await jobs_api.get(ann, "/api/wallet")).json()["balance"] == 100


async def test_a_credit_for_an_unknown_user_is_not_found(jobs_api: JobsApi) -> None:
    body = {"amount": 25, "provider_transaction_id": "stripe-1"}
    assert_refused(await jobs_api.post(f"/api/admin/users/{uuid7()}/credits", body), 404, "not_found")


async def test_an_admin_sees_the_wallet_and_the_transactions_of_any_user(jobs_api: JobsApi) -> None:
    for pool in ("pool_1", "pool_2"):
        ann = await jobs_api.person(pool, tokens=100)
        await jobs_api.submit(ann, cost=30)
        address = f"/api/admin/users/{ann.user.id}/wallet"
        assert (await jobs_api.get(jobs_api.admin, address)).json()["balance"] == 70
        page = (await jobs_api.get(jobs_api.admin, f"{address}/transactions?limit=1")).json()
        assert [(each["type"], each["amount"]) for each in page["items"]] == [("JOB_RESERVE", -30)]
        rest = (await jobs_api.get(jobs_api.admin, f"{address}/transactions?cursor={page['next_cursor']}")).json()
        assert [(each["type"], each["amount"]) for each in rest["items"]] == [("PAYMENT_CREDIT", 100)]
    for rest_of_path in ("", "/transactions"):
        response = await jobs_api.get(jobs_api.admin, f"/api/admin/users/{uuid7()}/wallet{rest_of_path}")
        assert_refused(response, 404, "not_found")


async def test_transactions_are_listed_newest_first_page_by_page(jobs_api: JobsApi, ann: Person) -> None:
    job = await jobs_api.submit(ann, cost=30)
    await jobs_api.core.complete(await jobs_api.start())
    broken = await jobs_api.submit(ann, cost=20)
    await jobs_api.core.fail(await jobs_api.start())
    seen: list[dict[str, Any]] = []
    cursor = ""
    while cursor is not None:
        page = (await jobs_api.get(ann, f"/api/wallet/transactions?limit=2{cursor and f'&cursor={cursor}'}")).json()
        assert len(page["items"]) <= 2
        seen += page["items"]
        cursor = page["next_cursor"]
    assert [(line["type"], line["amount"], line["job_id"], line["charge_cycle"]) for line in seen] == [
        ("JOB_REFUND", 20, broken["id"], 1),
        ("JOB_RESERVE", -20, broken["id"], 1),
        ("JOB_CONSUME", 0, job["id"], 1),
        ("JOB_RESERVE", -30, job["id"], 1),
        ("PAYMENT_CREDIT", 100, None, None),
    ]
    assert sum(line["amount"] for line in seen) == 70 == (await jobs_api.get(ann, "/api/wallet")).json()["balance"]
    wrong = await jobs_api.get(ann, "/api/wallet/transactions?cursor=0")
    assert_refused(wrong, 422, "invalid_request", "query.cursor")


async def with_results(jobs_api: JobsApi, person: Person, sizes: Sequence[int]) -> list[str]:
    """Completed tasks, newest first, whose results have so many bytes."""
    pool = await jobs_api.core.databases.pool(person.tenant.pool)
    ids = []
    for size in sizes:
        ids.append((await jobs_api.submit(person, cost=0, payload={"text": "p" * 1000}))["id"])
        await jobs_api.core.rows(
            pool,
            """UPDATE ai_jobs SET status = 'completed', completed_at = now(), lease_seq = 1, actor = 'actor',
                   queue_name = 'queue', result = jsonb_build_object('text', repeat('r', $2)) WHERE id = $1""",
            UUID(ids[-1]),
            size,
        )
    return ids[::-1]


@pytest.mark.parametrize(
    "path", ["/api/ai-jobs", "/api/task", "/api/admin/users/{user_id}/jobs", "/api/admin/tenants/{tenant_id}/jobs"]
)
async def test_a_page_is_cut_when_its_results_are_too_large_and_has_a_cursor(
    jobs_api: JobsApi, ann: Person, path: str
) -> None:
    """A page has one job at least; nothing is left out, nothing comes twice."""
    megabyte = 2**20
    ids = await with_results(
        jobs_api, ann, [10, 3 * megabyte, 10, 5 * megabyte, 10, 2 * megabyte, 2 * megabyte, 2 * megabyte]
    )
    pages: list[list[str]] = []
    cursor = None
    while len(pages) < 10:
        params: dict[str, Any] = {"limit": 50} | ({"cursor": cursor} if cursor else {})
        asker = jobs_api.admin if "/admin/" in path else ann
        address = path.format(user_id=ann.user.id, tenant_id=ann.tenant.id)
        response = await jobs_api.client.get(address, params=params, headers=asker.headers)
        assert response.status_code == 200, response.text
        page = response.json()
        pages.append([job["job_id" if path == "/api/task" else "id"] for job in page["items"]])
        assert all(job["result"] for job in page["items"])
        assert all(job.get("payload") is None for job in page["items"])
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert pages == [ids[:2], ids[2:5], ids[5:]]
