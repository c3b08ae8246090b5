"""Two concurrent requests for the last unit of a quota: one succeeds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from callsheet.identity.access.keys import Keys
from callsheet.identity.access.passwords import Passwords
from callsheet.identity.accounts.accounts import Accounts
from callsheet.identity.accounts.quotas import Quotas
from callsheet.plumbing.database.databases import Databases
from callsheet.settings import QuotaSettings
from callsheet.toolbox.ids import uuid7
from callsheet.wire.errors import QuotaExceeded
from callsheet.wire.identity import CreatedKey, CreateKeyRequest
from callsheet.wire.media import CreatedUpload, CreateUpload
from callsheet.wire.operate.quotas import ChangeQuotas
from tests.support.http.accounts import People
from tests.support.http.media_api import CLIP
from tests.support.jobs.core import Member
from tests.support.jobs.race import Race
from tests.support.jobs.race_control import open_transaction, start_blocked
from tests.support.media.media_harness import MediaHarness, open_media_harness, principal_of
from tests.support.media.seaweedfs import S3Server

SIZE = 1000
LOCK_USAGE = "SELECT FROM storage_usage WHERE tenant_id = $1 FOR UPDATE"


@dataclass(frozen=True, slots=True)
class Uploaders:
    """Two control planes, and two users of one tenant."""

    race: Race
    one: MediaHarness
    two: MediaHarness
    colleague: Member

    async def create(self, media: MediaHarness, member: Member) -> CreatedUpload:
        wanted = CreateUpload(name="clip.mp4", mime_type="video/mp4", size=SIZE)
        return await media.room.uploads.create(principal_of(member), wanted)

    async def limit(self, **limits: int) -> None:
        for media in (self.one, self.two):
            await media.room.usage.quotas.change("test", self.race.ann.tenant_id, ChangeQuotas(**limits))

    async def usage(self) -> list[tuple[int, int]]:
        query = "SELECT files, bytes FROM storage_usage WHERE tenant_id = $1 ORDER BY user_id LIMIT 1"
        rows = await self.race.one.rows(self.race.pool, query, self.race.ann.tenant_id)
        return [(row["files"], row["bytes"]) for row in rows]


@pytest.fixture
async def uploaders(race: Race, tmp_path: Path) -> AsyncIterator[Uploaders]:
    ann = replace(race.ann, pool=race.pool)
    colleague = replace(ann, user_id=uuid7())
    async with (
        open_media_harness(race.one, race.ann, tmp_path) as one,
        open_media_harness(race.two, ann, tmp_path) as two,
    ):
        yield Uploaders(race, one, two, colleague)


@pytest.fixture
async def s3_uploaders(race: Race, tmp_path: Path, s3_server: S3Server) -> AsyncIterator[Uploaders]:
    """Their uploads are in S3, which stores what is sent to the URL of a confirmed upload."""
    ann, storage = replace(race.ann, pool=race.pool), {"backend": "s3", "s3": s3_server.settings}
    async with (
        open_media_harness(race.one, race.ann, tmp_path, storage=storage) as one,
        open_media_harness(race.two, ann, tmp_path, storage=storage) as two,
    ):
        yield Uploaders(race, one, two, replace(ann, user_id=uuid7()))


async def reserved_bytes(media: MediaHarness) -> int:
    storage = await media.room.usage.of(media.ann.tenant_id, media.ann.user_id, media.ann.pool.name)
    assert storage is not None
    assert storage.user.reserved_bytes == storage.tenant.reserved_bytes
    return storage.user.reserved_bytes


async def test_two_concurrent_confirmations_reserve_the_bytes_of_the_url_once(s3_uploaders: Uploaders) -> None:
    one, two, pool = s3_uploaders.one, s3_uploaders.two, s3_uploaders.race.pool
    file_id = await one.upload(confirmed=False)
    async with open_transaction(pool, "SELECT FROM files WHERE id = $1 FOR UPDATE", file_id):
        tasks = await start_blocked(pool, *(media.confirm(file_id) for media in (one, two)))
    assert await asyncio.gather(*tasks) == ["ready", "ready"]
    assert await reserved_bytes(one) == len(CLIP)


async def test_no_bytes_are_reserved_longer_than_a_url_can_be_valid(s3_uploaders: Uploaders) -> None:
    await s3_uploaders.one.upload()
    assert await reserved_bytes(s3_uploaders.one) == len(CLIP)
    race = s3_uploaders.race
    await race.one.rows(race.pool, "UPDATE upload_sweeps SET since = since - interval '8 days'")
    assert await reserved_bytes(s3_uploaders.one) == 0


async def outcomes(*tasks: Awaitable[Any]) -> list[type]:
    found = await asyncio.gather(*tasks, return_exceptions=True)
    return sorted((type(each) for each in found), key=lambda kind: kind.__name__)


@pytest.mark.parametrize("quota", ["tenant_storage_bytes", "tenant_storage_files"])
async def test_one_of_two_users_gets_the_last_room_of_their_tenant(uploaders: Uploaders, quota: str) -> None:
    await uploaders.limit(**{quota: 2 * SIZE + 10 if quota.endswith("bytes") else 2})
    ann = uploaders.race.ann
    await uploaders.create(uploaders.one, ann)
    async with open_transaction(uploaders.race.pool, LOCK_USAGE, ann.tenant_id):
        tasks = await start_blocked(
            uploaders.race.pool,
            uploaders.create(uploaders.one, ann),
            uploaders.create(uploaders.two, uploaders.colleague),
        )
    assert await outcomes(*tasks) == [CreatedUpload, QuotaExceeded]
    assert await uploaders.usage() == [(2, 2 * SIZE)]


async def test_one_of_two_concurrent_uploads_of_a_user_gets_the_last_room(uploaders: Uploaders) -> None:
    await uploaders.limit(user_storage_bytes=SIZE)
    ann = uploaders.race.ann
    async with open_transaction(uploaders.race.pool, "SELECT wallet_lock($1, $2)", ann.tenant_id, ann.user_id):
        tasks = await start_blocked(
            uploaders.race.pool, uploaders.create(uploaders.one, ann), uploaders.create(uploaders.two, ann)
        )
    assert await outcomes(*tasks) == [CreatedUpload, QuotaExceeded]
    assert await uploaders.usage() == [(1, SIZE)]


async def test_one_of_two_concurrent_requests_gets_the_last_key(
    shared_databases: Databases, other_databases: Databases
) -> None:
    limited = QuotaSettings(keys_per_user=2)
    one, two = (Keys(each, Quotas(each, limited)) for each in (shared_databases, other_databases))
    person = await People(Accounts(shared_databases, Passwords()), one).user()
    central, request = other_databases.central, CreateKeyRequest(name="another")
    async with open_transaction(central, "SELECT FROM users WHERE id = $1 FOR UPDATE", person.user.id):
        tasks = await start_blocked(central, one.create(person.user.id, request), two.create(person.user.id, request))
    assert await outcomes(*tasks) == [CreatedKey, QuotaExceeded]
