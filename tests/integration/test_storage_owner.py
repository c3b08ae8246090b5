"""Storage is deleted from by one installation only: a copy that was left with the original's bucket deletes nothing."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from callsheet.media.storage import Storage, open_storage
from callsheet.media.storage.owner import KEY, StorageOwner, mark, read_owner
from callsheet.plumbing.database.databases import open_databases
from callsheet.plumbing.embedded import EmbeddedPostgres
from callsheet.settings import Settings
from callsheet.wire.errors import Unavailable
from tests.support.database.database_copies import open_database_copies
from tests.support.jobs.core import Core, Member
from tests.support.media.media_harness import SECRET, MediaHarness
from tests.support.media.seaweedfs import S3Server
from tests.support.programs.commands import Callsheet
from tests.support.rooms import media_room

_numbers = itertools.count(1)


@pytest.fixture(params=["local", "s3"])
def chosen(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """Local storage, then a bucket of a real S3 server; no other installation uses it."""
    storage: dict[str, Any] = {}
    if request.param == "s3":
        server: S3Server = request.getfixturevalue("s3_server")
        bucket = f"owned-{next(_numbers)}"
        server.create_bucket(bucket)
        storage = {"backend": "s3", "s3": {**server.settings, "bucket": bucket}}
    return Settings.model_validate({"home": tmp_path, "storage": storage})


@pytest.fixture
async def media(chosen: Settings, core: Core, ann: Member) -> AsyncIterator[MediaHarness]:
    owner = StorageOwner(core.databases)
    storage = open_storage(chosen, SECRET, owner)
    yield MediaHarness(core, media_room(core.databases, storage, chosen, SECRET, owner), ann)
    await storage.close()


@pytest.fixture
async def elsewhere(chosen: Settings) -> AsyncIterator[Storage]:
    """The same storage as another installation has it."""
    storage = open_storage(chosen, SECRET, None)
    yield storage
    await storage.close()


async def installation_of(core: Core) -> UUID:
    [row] = await core.rows(core.databases.central, "SELECT id FROM installation")
    found: UUID = row["id"]
    return found


async def tick(media: MediaHarness) -> bool:
    return await media.room.sweeper.tick(datetime.now(UTC))


async def test_unmarked_storage_is_marked_as_owned_by_the_installation(media: MediaHarness, elsewhere: Storage) -> None:
    await tick(media)
    assert await read_owner(elsewhere) == await installation_of(media.core)
    await media.delete_file(await media.upload())
    assert await media.paths() == set()
    # Neither a deletion nor a sweep takes the marker away.
    await media.sweep()
    assert await elsewhere.head(KEY) is not None


async def test_storage_of_another_installation_is_not_deleted_until_an_operator_confirms_it(
    media: MediaHarness, elsewhere: Storage
) -> None:
    other, own = uuid4(), await installation_of(media.core)
    await mark(elsewhere, other)
    file_id = await media.upload()
    paths = await media.paths()
    # What is done for people works; the objects stay.
    await media.delete_file(file_id)
    assert not await tick(media)
    with pytest.raises(Unavailable):
        await media.sweep()
    with pytest.raises(Unavailable):
        await media.room.files.storage.delete(next(iter(paths)))
    assert await media.paths() == paths
    assert media.room.owner is not None
    problem = media.room.owner.problem or ""
    assert all(text in problem for text in (str(other), str(own), elsewhere.place, "callsheet db adopt --storage"))

    await mark(elsewhere, own)
    await media.sweep()
    assert await media.paths() == set()
    assert media.room.owner.problem is None


async def test_an_unreadable_marker_prevents_every_deletion(media: MediaHarness, elsewhere: Storage) -> None:
    await elsewhere.put(KEY, b"{}", content_type="application/json")
    await media.delete_file(await media.upload())
    with pytest.raises(Unavailable, match="callsheet db adopt --storage"):
        await tick(media)
    assert len(await media.paths()) > 0


@pytest.mark.thorough
async def test_a_copy_detects_that_its_storage_belongs_to_the_original_and_may_take_it_over(
    settings: Settings, postgres: EmbeddedPostgres, tmp_path: Path
) -> None:
    databases = await open_databases(settings)
    dsns = {pool.name: pool.dsn for pool in databases.pools}
    storage = open_storage(settings, SECRET, StorageOwner(databases))
    await storage.delete("tenants/nobody")
    original = await read_owner(storage)
    await databases.close()
    async with open_database_copies(postgres) as database_copies:
        assert settings.database.dsn is not None
        central = await database_copies.of(settings.database.dsn.get_secret_value())
        pools = [f"{name}={await database_copies.of(dsn)}" for name, dsn in dsns.items()]
        copy = Callsheet(tmp_path, HOME=str(settings.home), DATABASE__DSN=central)
        printed = copy.run("db", "repoint", *pools)
        assert printed.code == 0, printed
        new_id = printed.out.split()[4]
        assert f"belongs to installation {original}, and this is installation {new_id}" in printed.err
        found = [each for each in copy.run("doctor", "--json").json if each["part"] == "storage"]
        assert [each["status"] for each in found] == ["ok", "problem"]
        assert await read_owner(storage) == original
        taken = copy.succeed("db", "adopt", "--storage").out
        assert f"This installation owns the storage at {storage.place} now." in taken
        assert str(await read_owner(storage)) == new_id
        assert [each["status"] for each in copy.run("doctor", "--json").json if each["part"] == "storage"] == ["ok"]
    await storage.close()
