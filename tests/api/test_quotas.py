"""Quotas: what a tenant and a user may keep holds, is shown, and is an operator's to change."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import httpx
import pytest

from callsheet.app import ControlPlane
from callsheet.wire.identity import Role
from callsheet.wire.quotas import QuotaLimits
from tests.support.answers import assert_refused
from tests.support.media import CLIP, Studio, declared
from tests.support.people import Person

SIZE = len(CLIP)


@pytest.fixture
async def studio(plane: ControlPlane) -> AsyncIterator[Studio]:
    async with Studio.opened(plane) as studio:
        yield studio


@pytest.fixture
async def operator(studio: Studio) -> Person:
    return await studio.jobs_api.people.admin()


async def change(studio: Studio, operator: Person, **limits: int | None) -> dict[str, Any]:
    path = f"/api/admin/tenants/{studio.tenant_id}/quotas"
    answer = await studio.jobs_api.client.patch(path, json=limits, headers=operator.headers)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def storage(studio: Studio) -> dict[str, Any]:
    return dict((await studio.ask("GET", "/api/me")).json()["storage"])


async def test_me_shows_what_files_take_and_may_take(studio: Studio) -> None:
    quotas = studio.plane.settings.quotas
    nothing = {
        "user": {
            "bytes": 0,
            "files": 0,
            "bytes_limit": quotas.user_storage_bytes,
            "files_limit": quotas.user_storage_files,
        },
        "tenant": {
            "bytes": 0,
            "files": 0,
            "bytes_limit": quotas.tenant_storage_bytes,
            "files_limit": quotas.tenant_storage_files,
        },
    }
    assert await storage(studio) == nothing
    # An upload that is waited for counts with the size it was declared with.
    created = (await studio.create()).json()
    taken = await storage(studio)
    assert (taken["user"]["bytes"], taken["user"]["files"]) == (SIZE, 1)
    await studio.send(created)
    await studio.confirm(created["file"])
    assert await storage(studio) == taken
    colleague = await studio.colleague()
    assert (await storage(colleague))["user"] == nothing["user"]
    assert (await storage(colleague))["tenant"] == taken["tenant"]
    assert await storage(await studio.stranger()) == nothing
    assert (await studio.ask("DELETE", f"/api/files/{created['file']['id']}")).status_code == 204
    assert await storage(studio) == nothing


async def test_results_of_jobs_count_and_go_with_their_video(studio: Studio) -> None:
    video = await studio.video()
    await studio.run(video, b"\x01" * 70, b"\x02" * 30)
    assert (await storage(studio))["user"]["files"] == 3
    assert (await storage(studio))["user"]["bytes"] == SIZE + 100
    assert (await studio.ask("DELETE", f"/api/videos/{video['id']}")).status_code == 204
    assert (await storage(studio))["tenant"]["bytes"] == 0


@pytest.mark.parametrize(
    ("quota", "limit", "used"),
    [
        ("user_storage_bytes", SIZE * 2 - 1, SIZE * 2),
        ("user_storage_files", 1, 2),
        ("tenant_storage_bytes", SIZE * 2 - 1, SIZE * 2),
        ("tenant_storage_files", 1, 2),
    ],
)
async def test_an_upload_beyond_the_quota_is_refused_and_names_the_limit(
    studio: Studio, operator: Person, quota: str, limit: int, used: int
) -> None:
    await change(studio, operator, **{quota: limit})
    first = await studio.uploaded()
    assert (await studio.confirm(first)).status_code == 200
    other = await studio.colleague() if quota.startswith("tenant") else studio
    problem = assert_refused(await other.create(), 409, "quota_exceeded")
    assert (problem["quota"], problem["limit"], problem["used"]) == (quota, limit, used)
    assert f"the limit is {limit} ({quota}). Delete videos or files, or ask an operator" in problem["detail"]
    assert len(await studio.file_rows()) == 1
    assert (await studio.ask("DELETE", f"/api/files/{first['id']}")).status_code == 204
    assert (await other.create()).status_code == 201


async def test_an_upload_that_was_given_up_counts_until_its_url_is_dead(studio: Studio, operator: Person) -> None:
    """A client that has the URL can still store bytes there."""
    await change(studio, operator, user_storage_bytes=SIZE)
    created = (await studio.create()).json()
    assert (await studio.ask("DELETE", f"/api/files/{created['file']['id']}")).status_code == 204
    assert_refused(await studio.create(), 409, "quota_exceeded")
    later = datetime.now(UTC) + timedelta(days=3)
    while await studio.plane.media.sweeper.sweep(studio.pool, later):
        pass
    assert (await studio.create()).status_code == 201


async def test_a_stranger_is_not_touched_by_the_quota_of_a_tenant(studio: Studio, operator: Person) -> None:
    await change(studio, operator, tenant_storage_bytes=0)
    assert_refused(await studio.create(), 409, "quota_exceeded")
    assert (await (await studio.stranger()).create()).status_code == 201


async def test_no_job_begins_for_who_has_no_room_and_what_runs_is_kept(studio: Studio, operator: Person) -> None:
    video, second = await studio.video(), await studio.video()
    await studio.submit(video)
    await change(studio, operator, user_storage_bytes=SIZE)
    # Its result is kept though it exceeds the quota: its work was done and paid for.
    [made] = await studio.complete(await studio.jobs_api.start(), b"\x01" * 50)
    assert (await studio.ask("GET", f"/api/files/{made.file_id}")).status_code == 200
    balance = (await studio.ask("GET", "/api/wallet")).json()["balance"]
    task = {"actor": "copy", "payload": {"product": {"title": "Lamp"}}}
    problem = assert_refused(await studio.ask("POST", "/api/task", task), 409, "quota_exceeded")
    assert (problem["quota"], problem["used"]) == ("user_storage_bytes", 2 * SIZE + 50)
    assert (await studio.ask("GET", "/api/wallet")).json()["balance"] == balance
    for each in (video, second):
        assert (await studio.ask("DELETE", f"/api/videos/{each['id']}")).status_code == 204
    assert (await studio.ask("POST", "/api/task", task)).status_code == 201


@pytest.mark.parametrize(
    ("payload", "field", "quota"),
    [
        ({"product": {"title": "x" * 3000}}, "payload", "payload_bytes"),
        ({"product": {"title": "x"}, "source_data": {"a": "ü" * 260}}, "payload.source_data", "source_data_bytes"),
    ],
)
async def test_a_large_payload_is_refused_by_its_field(
    studio: Studio, operator: Person, payload: dict[str, Any], field: str, quota: str
) -> None:
    await change(studio, operator, payload_bytes=3000, source_data_bytes=500)
    answer = await studio.ask("POST", "/api/task", {"actor": "copy", "payload": payload})
    problem = assert_refused(answer, 422, "invalid_request", field)
    assert f"({quota}). Send less data, or a file." in problem["errors"][0]["reason"]
    assert (await studio.ask("GET", "/api/task")).json()["items"] == []


async def test_the_default_bounds_a_payload_below_the_largest_body(studio: Studio) -> None:
    body = {"actor": "copy", "payload": {"notes": "x" * 262_144}}
    assert_refused(await studio.ask("POST", "/api/task", body), 422, "invalid_request", "payload")
    effect = {"effect_id": "any", "input_payload": {str(number): "x" * 20_000 for number in range(14)}}
    assert_refused(await studio.ask("POST", "/api/ai-jobs", effect), 422, "invalid_request", "input_payload")


async def test_keys_have_a_limit_and_revoked_and_expired_ones_do_not_count(studio: Studio, operator: Person) -> None:
    # The studio's own key is one.
    await change(studio, operator, keys_per_user=2)
    path = f"/api/admin/users/{studio.person.user.id}/keys"

    async def create() -> httpx.Response:
        return await studio.jobs_api.client.post(path, json={"name": "another"}, headers=operator.headers)

    created = await create()
    assert created.status_code == 201
    problem = assert_refused(await create(), 409, "quota_exceeded")
    assert (problem["quota"], problem["limit"], problem["used"]) == ("keys_per_user", 2, 2)
    assert (await studio.ask("DELETE", f"/api/keys/{created.json()['id']}")).status_code == 200
    created = await create()
    assert created.status_code == 201
    async with studio.plane.databases.central.connection() as connection:
        await connection.execute(
            "UPDATE api_keys SET expires_at = clock_timestamp() WHERE id = $1", UUID(created.json()["id"])
        )
    assert (await create()).status_code == 201


async def test_an_operator_changes_single_limits_and_takes_the_default_again(studio: Studio, operator: Person) -> None:
    defaults = studio.plane.settings.quotas.model_dump(include=set(QuotaLimits.model_fields))
    await studio.uploaded()
    await change(studio, operator, user_storage_files=7)
    changed = await change(studio, operator, keys_per_user=3)
    assert changed == {
        "tenant": studio.person.tenant.slug,
        "limits": {**defaults, "user_storage_files": 7, "keys_per_user": 3},
        "changed": {"user_storage_files": 7, "keys_per_user": 3},
        "storage": {
            "bytes": SIZE,
            "files": 1,
            "bytes_limit": defaults["tenant_storage_bytes"],
            "files_limit": defaults["tenant_storage_files"],
        },
    }
    assert (await storage(studio))["user"]["files_limit"] == 7
    assert (await change(studio, operator, user_storage_files=None))["changed"] == {"keys_per_user": 3}
    lines = await studio.jobs_api.client.get(
        "/api/admin/audit-logs", params={"action": "tenant.quotas"}, headers=operator.headers
    )
    own = [line["details"] for line in lines.json()["items"] if line["tenant_id"] == str(studio.tenant_id)]
    assert own == [{"user_storage_files": None}, {"keys_per_user": 3}, {"user_storage_files": 7}]


@pytest.mark.parametrize(
    ("body", "field"),
    [({"keys_per_user": -1}, "keys_per_user"), ({"keys_per_user": "3"}, "keys_per_user"), ({"keys": 3}, "keys")],
)
async def test_a_limit_that_is_none_is_refused(
    studio: Studio, operator: Person, body: dict[str, Any], field: str
) -> None:
    path = f"/api/admin/tenants/{studio.tenant_id}/quotas"
    answer = await studio.jobs_api.client.patch(path, json=body, headers=operator.headers)
    assert_refused(answer, 422, "invalid_request", field)


async def test_a_tenant_admin_sees_the_limits_and_does_not_change_them(studio: Studio) -> None:
    boss = await studio.jobs_api.people.user(studio.person.tenant, Role.TENANT_ADMIN)
    path = f"/api/admin/tenants/{studio.tenant_id}/quotas"
    assert (await studio.jobs_api.client.get(path, headers=boss.headers)).json()["changed"] == {}
    refused = await studio.jobs_api.client.patch(path, json={"keys_per_user": 9}, headers=boss.headers)
    assert_refused(refused, 403, "forbidden")


async def test_an_upload_larger_than_the_whole_quota_writes_nothing(studio: Studio, operator: Person) -> None:
    await change(studio, operator, user_storage_bytes=10)
    answer = await studio.ask("POST", "/api/videos/uploads", declared(CLIP))
    assert_refused(answer, 409, "quota_exceeded")
    assert await studio.file_rows() == []
    assert (await storage(studio))["user"]["files"] == 0
