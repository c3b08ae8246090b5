"""The bytes that a user's pipelines, runs and jobs take in the database: counted, shared, shown and limited."""

from __future__ import annotations

import secrets
from typing import Any
from uuid import UUID

import pytest

from tests.support.http.accounts import Person
from tests.support.http.actor_harness import ActorHarness
from tests.support.http.responses import assert_refused

STEP_BYTES = 10_000
STEPS = 10


def step(number: int) -> dict[str, Any]:
    return {
        "name": f"Step {number}",
        "workflow": "actor:painter",
        "payload": {"prompt": secrets.token_hex(STEP_BYTES // 2)},
    }


@pytest.fixture
async def ann(actor_harness: ActorHarness) -> Person:
    return await actor_harness.person("pool_1")


async def used(actor_harness: ActorHarness, person: Person) -> int:
    return int((await actor_harness.ask(person, "GET", "/api/me")).json()["storage"]["database"]["bytes"])


async def limit(actor_harness: ActorHarness, person: Person, **limits: int | None) -> dict[str, Any]:
    path = f"/api/admin/tenants/{person.tenant.id}/quotas"
    response = await actor_harness.ask(actor_harness.jobs_api.admin, "PATCH", path, limits)
    assert response.status_code == 200, response.text
    return dict(response.json())


async def documents(actor_harness: ActorHarness, person: Person) -> int:
    pool = await actor_harness.plane.databases.pool(person.tenant.pool)
    async with pool.connection() as connection:
        query = "SELECT count(*) FROM step_documents WHERE tenant_id = $1"
        return int(await connection.fetchval(query, person.tenant.id))


async def test_versions_of_a_pipeline_share_the_steps_that_did_not_change(
    actor_harness: ActorHarness, ann: Person
) -> None:
    steps = [step(number) for number in range(STEPS)]
    made = await actor_harness.ask(ann, "POST", "/api/pipelines", {"slug": "big", "name": "Big", "steps": steps})
    assert made.status_code == 201, made.text
    first = await used(actor_harness, ann)
    assert STEPS * STEP_BYTES < first < STEPS * (STEP_BYTES + 1_000)
    path = "/api/pipelines/big"
    changed = [*steps[:-1], step(STEPS)]
    for wanted, added in ((changed, STEP_BYTES), ([{**each, "max_children": 9} for each in changed], 0), (steps, 0)):
        before = await used(actor_harness, ann)
        response = await actor_harness.ask(ann, "PATCH", path, {"steps": wanted})
        assert response.status_code == 200, response.text
        shown = response.json()["steps"]
        assert [each["payload"] for each in shown] == [each["payload"] for each in wanted]
        # Besides new documents, a version takes only its rows.
        assert added <= await used(actor_harness, ann) - before < added + STEPS * 1_000
    assert await documents(actor_harness, ann) == STEPS + 1
    before = await used(actor_harness, ann)
    same = await actor_harness.ask(ann, "PATCH", path, {"steps": steps, "name": "Renamed"})
    assert (same.json()["version"], await used(actor_harness, ann)) == (4, before)
    versions = (await actor_harness.ask(ann, "GET", f"{path}/versions")).json()["items"]
    assert [each["steps"][-1]["payload"] for each in versions] == [
        each["payload"] for each in (steps[-1], changed[-1], changed[-1], steps[-1])
    ]
    assert (await actor_harness.ask(ann, "DELETE", path)).status_code == 204
    assert (await used(actor_harness, ann), await documents(actor_harness, ann)) == (0, 0)


async def test_a_pipeline_or_a_run_above_the_quota_is_refused_and_nothing_is_written(
    actor_harness: ActorHarness, ann: Person
) -> None:
    await limit(actor_harness, ann, user_database_bytes=3 * STEP_BYTES)
    body = {"slug": "big", "name": "Big", "steps": [step(1), step(2)]}
    assert (await actor_harness.ask(ann, "POST", "/api/pipelines", body)).status_code == 201
    before = await used(actor_harness, ann)
    more = await actor_harness.ask(ann, "PATCH", "/api/pipelines/big", {"steps": [step(1), step(2)]})
    problem = assert_refused(more, 409, "quota_exceeded")
    assert (problem["quota"], problem["limit"]) == ("user_database_bytes", 3 * STEP_BYTES)
    assert problem["used"] > 3 * STEP_BYTES
    assert "pipelines that have no runs" in problem["detail"]
    other = {"slug": "other", "name": "Other", "steps": [step(1)]}
    assert_refused(await actor_harness.ask(ann, "POST", "/api/pipelines", other), 409, "quota_exceeded")
    await limit(actor_harness, ann, user_database_bytes=before + 100)
    run = await actor_harness.ask(ann, "POST", "/api/pipelines/big/runs", {"name": "A run", "budget": 100})
    assert_refused(run, 409, "quota_exceeded")
    assert (await used(actor_harness, ann), await documents(actor_harness, ann)) == (before, 2)
    assert (await actor_harness.ask(ann, "GET", "/api/pipelines/big")).json()["version"] == 1
    assert (await actor_harness.ask(ann, "GET", "/api/runs")).json()["items"] == []


async def test_jobs_are_counted_until_they_are_deleted_and_operators_see_the_bytes(
    actor_harness: ActorHarness, ann: Person
) -> None:
    payload = {"text": secrets.token_hex(STEP_BYTES // 2)}
    task = await actor_harness.ended(ann, await actor_harness.submit(ann, "echo", payload))
    counted = await used(actor_harness, ann)
    assert STEP_BYTES < counted < STEP_BYTES + 1_000
    shown = await limit(actor_harness, ann, user_database_bytes=counted)
    assert (shown["database_bytes"], shown["limits"]["user_database_bytes"]) == (counted, counted)
    problem = assert_refused(await actor_harness.try_submit(ann, "echo", {}), 409, "quota_exceeded")
    assert (problem["quota"], problem["used"]) == ("user_database_bytes", counted)
    colleague = await actor_harness.person(tenant_of=ann)
    assert (await actor_harness.try_submit(colleague, "echo", {})).status_code == 201
    assert (await actor_harness.ask(ann, "DELETE", f"/api/ai-jobs/{UUID(task['job_id'])}")).status_code == 204
    assert await used(actor_harness, ann) == 0
    assert (await actor_harness.try_submit(ann, "echo", {})).status_code == 201
