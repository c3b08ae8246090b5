"""Quotas of a tenant and a user are enforced and shown, and an operator can change them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.wire.identity import Role
from callsheet.wire.operate.quotas import QuotaLimits
from tests.support.http.accounts import Person
from tests.support.http.media_api import CLIP, MediaApi, declared
from tests.support.http.responses import assert_refused

SIZE = len(CLIP)


@pytest.fixture
async def media_api(plane: ControlPlane) -> AsyncIterator[MediaApi]:
    async with MediaApi.opened(plane) as media_api:
        yield media_api


@pytest.fixture
async def stored_media_api(stored_plane: ControlPlane) -> AsyncIterator[MediaApi]:
    """On local storage, then on S3."""
    async with MediaApi.opened(stored_plane) as media_api:
        yield media_api


@pytest.fixture
async def stored_operator(stored_media_api: MediaApi) -> Person:
    return await stored_media_api.jobs_api.people.admin()


@pytest.fixture
async def operator(media_api: MediaApi) -> Person:
    return await media_api.jobs_api.people.admin()


async def change(media_api: MediaApi, operator: Person, **limits: int | None) -> dict[str, Any]:
    path = f"/api/admin/tenants/{media_api.tenant_id}/quotas"
    response = await media_api.jobs_api.client.patch(path, json=limits, headers=operator.headers)
    assert response.status_code == 200, response.text
    return dict(response.json())


async def storage(media_api: MediaApi) -> dict[str, Any]:
    return dict((await media_api.ask("GET", "/api/me")).json()["storage"])


async def test_me_shows_used_and_allowed_storage(media_api: MediaApi) -> None:
    quotas = media_api.plane.settings.quotas
    nothing = {
        "user": {
            "bytes": 0,
            "files": 0,
            "reserved_bytes": 0,
            "reserved_files": 0,
            "bytes_limit": quotas.user_storage_bytes,
            "files_limit": quotas.user_storage_files,
        },
        "tenant": {
            "bytes": 0,
            "files": 0,
            "reserved_bytes": 0,
            "reserved_files": 0,
            "bytes_limit": quotas.tenant_storage_bytes,
            "files_limit": quotas.tenant_storage_files,
        },
        "database": {"bytes": 0, "bytes_limit": quotas.user_database_bytes},
    }
    assert await storage(media_api) == nothing
    # An upload that is waited for counts with the size it was declared with.
    created = (await media_api.create()).json()
    taken = await storage(media_api)
    assert (taken["user"]["bytes"], taken["user"]["files"]) == (SIZE, 1)
    await media_api.send(created)
    await media_api.confirm(created["file"])
    assert await storage(media_api) == taken
    colleague = await media_api.colleague()
    assert (await storage(colleague))["user"] == nothing["user"]
    assert (await storage(colleague))["tenant"] == taken["tenant"]
    assert await storage(await media_api.stranger()) == nothing
    assert (await media_api.ask("DELETE", f"/api/files/{created['file']['id']}")).status_code == 204
    assert await storage(media_api) == nothing


async def test_results_of_jobs_count_until_their_video_is_deleted(media_api: MediaApi) -> None:
    video = await media_api.video()
    await media_api.run(video, b"\x01" * 70, b"\x02" * 30)
    assert (await storage(media_api))["user"]["files"] == 3
    assert (await storage(media_api))["user"]["bytes"] == SIZE + 100
    assert (await media_api.ask("DELETE", f"/api/videos/{video['id']}")).status_code == 204
    assert (await storage(media_api))["tenant"]["bytes"] == 0


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
    media_api: MediaApi, operator: Person, quota: str, limit: int, used: int
) -> None:
    await change(media_api, operator, **{quota: limit})
    first = await media_api.uploaded()
    assert (await media_api.confirm(first)).status_code == 200
    other = await media_api.colleague() if quota.startswith("tenant") else media_api
    problem = assert_refused(await other.create(), 409, "quota_exceeded")
    assert (problem["quota"], problem["limit"], problem["used"]) == (quota, limit, used)
    assert f"the limit is {limit} ({quota}). Delete videos or files, or ask an operator" in problem["detail"]
    assert len(await media_api.file_rows()) == 1
    assert (await media_api.ask("DELETE", f"/api/files/{first['id']}")).status_code == 204
    assert (await other.create()).status_code == 201


async def test_a_deleted_upload_counts_until_its_url_expires(media_api: MediaApi, operator: Person) -> None:
    """A client that has the URL can still store bytes there."""
    await change(media_api, operator, user_storage_bytes=SIZE)
    created = (await media_api.create()).json()
    assert (await media_api.ask("DELETE", f"/api/files/{created['file']['id']}")).status_code == 204
    assert_refused(await media_api.create(), 409, "quota_exceeded")
    later = datetime.now(UTC) + timedelta(days=3)
    while await media_api.plane.rooms.media.sweeper.sweep(media_api.pool, later):
        pass
    assert (await media_api.create()).status_code == 201


@pytest.mark.parametrize("is_deleted", [True, False], ids=["deleted", "kept"])
async def test_the_url_of_a_confirmed_upload_stores_nothing_that_does_not_count(
    stored_media_api: MediaApi, stored_operator: Person, is_deleted: bool
) -> None:
    """Local storage refuses the bytes. S3 cannot, so they count for new uploads until the URL is worthless."""
    api = stored_media_api
    is_local = api.plane.settings.storage.backend == "local"
    await change(api, stored_operator, user_storage_bytes=4 * SIZE)
    accepted = 0
    for _ in range(6):
        response = await api.create()
        if response.status_code == 409:
            break
        accepted += 1
        created = response.json()
        await api.send(created)
        assert (await api.confirm(created["file"])).status_code == 200
        if is_deleted:
            assert (await api.ask("DELETE", f"/api/files/{created['file']['id']}")).status_code == 204
        late = await api.send(created)
        if is_local:
            assert_refused(late, 409, "wrong_state")
        else:
            assert late.status_code == 200
        stored = [entry.size async for entry in api.plane.rooms.storage.list(f"tenants/{api.tenant_id}")]
        used = (await storage(api))["user"]
        assert sum(stored) == used["bytes"] + used["reserved_bytes"]
    assert accepted == {(True, True): 6, (True, False): 4, (False, True): 4, (False, False): 2}[is_local, is_deleted]
    assert (await storage(api))["tenant"]["reserved_files"] == (0 if is_local else accepted)
    if accepted < 6:
        problem = assert_refused(response, 409, "quota_exceeded")
        assert problem["used"] == 5 * SIZE
        assert ("reserved" in problem["detail"]) is not is_local
    later = datetime.now(UTC) + timedelta(days=3)
    while await api.plane.rooms.media.sweeper.sweep(api.pool, later):
        pass
    used = (await storage(api))["user"]
    assert (used["reserved_bytes"], used["bytes"]) == (0, 0 if is_deleted else accepted * SIZE)
    assert len(await api.paths()) == used["files"]


async def test_a_job_may_start_on_an_upload_whose_url_is_still_valid(
    stored_media_api: MediaApi, stored_operator: Person
) -> None:
    """The reserved bytes count for new uploads only."""
    api = stored_media_api
    await change(api, stored_operator, user_storage_bytes=2 * SIZE)
    await api.confirm(await api.uploaded())
    task = {"actor": "copy", "payload": {"product": {"title": "Lamp"}}}
    assert (await api.ask("POST", "/api/task", task)).status_code == 201
    await change(api, stored_operator, user_storage_bytes=SIZE)
    assert_refused(await api.ask("POST", "/api/task", task), 409, "quota_exceeded")


async def test_the_quota_of_a_tenant_does_not_affect_other_tenants(media_api: MediaApi, operator: Person) -> None:
    await change(media_api, operator, tenant_storage_bytes=0)
    assert_refused(await media_api.create(), 409, "quota_exceeded")
    assert (await (await media_api.stranger()).create()).status_code == 201


async def test_a_user_without_storage_submits_no_job_and_keeps_the_results_of_running_jobs(
    media_api: MediaApi, operator: Person
) -> None:
    video, second = await media_api.video(), await media_api.video()
    await media_api.submit(video)
    await change(media_api, operator, user_storage_bytes=SIZE)
    # Its result is kept though it exceeds the quota: its work was done and paid for.
    [made] = await media_api.complete(await media_api.jobs_api.start(), b"\x01" * 50)
    assert (await media_api.ask("GET", f"/api/files/{made.file_id}")).status_code == 200
    balance = (await media_api.ask("GET", "/api/wallet")).json()["balance"]
    task = {"actor": "copy", "payload": {"product": {"title": "Lamp"}}}
    problem = assert_refused(await media_api.ask("POST", "/api/task", task), 409, "quota_exceeded")
    assert (problem["quota"], problem["used"]) == ("user_storage_bytes", 2 * SIZE + 50)
    assert (await media_api.ask("GET", "/api/wallet")).json()["balance"] == balance
    for each in (video, second):
        assert (await media_api.ask("DELETE", f"/api/videos/{each['id']}")).status_code == 204
    assert (await media_api.ask("POST", "/api/task", task)).status_code == 201


@pytest.mark.parametrize(
    "payload",
    [{"product": {"title": "x" * 3000}}, {"product": {"title": "x"}, "source_data": {"a": "ü" * 1500}}],
    ids=["characters", "bytes"],
)
async def test_a_large_payload_is_refused_by_its_field(
    media_api: MediaApi, operator: Person, payload: dict[str, Any]
) -> None:
    await change(media_api, operator, payload_bytes=3000)
    response = await media_api.ask("POST", "/api/task", {"actor": "copy", "payload": payload})
    problem = assert_refused(response, 422, "invalid_request", "payload")
    assert "(payload_bytes). Send less data, or a file." in problem["errors"][0]["reason"]
    assert (await media_api.ask("GET", "/api/task")).json()["items"] == []


async def test_the_default_bounds_a_payload_below_the_largest_body(media_api: MediaApi) -> None:
    body = {"actor": "copy", "payload": {"notes": "x" * 262_144}}
    assert_refused(await media_api.ask("POST", "/api/task", body), 422, "invalid_request", "payload")
    effect = {"effect_id": "any", "input_payload": {str(number): "x" * 20_000 for number in range(14)}}
    assert_refused(await media_api.ask("POST", "/api/ai-jobs", effect), 422, "invalid_request", "input_payload")


async def test_keys_have_a_limit_and_revoked_and_expired_ones_do_not_count(
    media_api: MediaApi, operator: Person
) -> None:
    # The key of the operator is one.
    await change(media_api, operator, keys_per_user=2)
    path = f"/api/admin/users/{media_api.person.user.id}/keys"

    async def create() -> httpx.Response:
        return await media_api.jobs_api.client.post(path, json={"name": "another"}, headers=operator.headers)

    created = await create()
    assert created.status_code == 201
    problem = assert_refused(await create(), 409, "quota_exceeded")
    assert (problem["quota"], problem["limit"], problem["used"]) == ("keys_per_user", 2, 2)
    assert (await media_api.ask("DELETE", f"/api/keys/{created.json()['id']}")).status_code == 200
    created = await create()
    assert created.status_code == 201
    async with media_api.plane.databases.central.connection() as connection:
        await connection.execute(
            "UPDATE api_keys SET expires_at = clock_timestamp() WHERE id = $1", UUID(created.json()["id"])
        )
    assert (await create()).status_code == 201


async def test_an_operator_changes_single_limits_and_restores_the_default(
    media_api: MediaApi, operator: Person
) -> None:
    defaults = media_api.plane.settings.quotas.model_dump(include=set(QuotaLimits.model_fields))
    await media_api.uploaded()
    await change(media_api, operator, user_storage_files=7)
    changed = await change(media_api, operator, keys_per_user=3)
    assert changed == {
        "tenant": media_api.person.tenant.slug,
        "limits": {**defaults, "user_storage_files": 7, "keys_per_user": 3},
        "changed": {"user_storage_files": 7, "keys_per_user": 3},
        "database_bytes": 0,
        "storage": {
            "bytes": SIZE,
            "files": 1,
            "reserved_bytes": 0,
            "reserved_files": 0,
            "bytes_limit": defaults["tenant_storage_bytes"],
            "files_limit": defaults["tenant_storage_files"],
        },
    }
    assert (await storage(media_api))["user"]["files_limit"] == 7
    assert (await change(media_api, operator, user_storage_files=None))["changed"] == {"keys_per_user": 3}
    lines = await media_api.jobs_api.client.get(
        "/api/admin/audit-logs", params={"action": "tenant.quotas"}, headers=operator.headers
    )
    own = [line["details"] for line in lines.json()["items"] if line["tenant_id"] == str(media_api.tenant_id)]
    assert own == [{"user_storage_files": None}, {"keys_per_user": 3}, {"user_storage_files": 7}]


@pytest.mark.parametrize(
    ("body", "field"),
    [({"keys_per_user": -1}, "keys_per_user"), ({"keys_per_user": "3"}, "keys_per_user"), ({"keys": 3}, "keys")],
)
async def test_an_invalid_limit_is_refused(
    media_api: MediaApi, operator: Person, body: dict[str, Any], field: str
) -> None:
    path = f"/api/admin/tenants/{media_api.tenant_id}/quotas"
    response = await media_api.jobs_api.client.patch(path, json=body, headers=operator.headers)
    assert_refused(response, 422, "invalid_request", field)


async def test_a_tenant_admin_sees_the_limits_and_does_not_change_them(media_api: MediaApi) -> None:
    tenant_admin = await media_api.jobs_api.people.user(media_api.person.tenant, Role.TENANT_ADMIN)
    path = f"/api/admin/tenants/{media_api.tenant_id}/quotas"
    assert (await media_api.jobs_api.client.get(path, headers=tenant_admin.headers)).json()["changed"] == {}
    refused = await media_api.jobs_api.client.patch(path, json={"keys_per_user": 9}, headers=tenant_admin.headers)
    assert_refused(refused, 403, "forbidden")


async def test_an_upload_larger_than_the_whole_quota_writes_nothing(media_api: MediaApi, operator: Person) -> None:
    await change(media_api, operator, user_storage_bytes=10)
    response = await media_api.ask("POST", "/api/videos/uploads", declared(CLIP))
    assert_refused(response, 409, "quota_exceeded")
    assert await media_api.file_rows() == []
    assert (await storage(media_api))["user"]["files"] == 0
