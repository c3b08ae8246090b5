"""A key is created while the password changes, which is to end all keys: it is never left over."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from callsheet.identity.access.keys import Keys, hash_secret
from callsheet.identity.access.passwords import Passwords
from callsheet.identity.accounts.accounts import Accounts
from callsheet.identity.accounts.quotas import Quotas
from callsheet.identity.links.links import replace_password
from callsheet.plumbing.database.databases import Databases
from callsheet.settings import QuotaSettings
from callsheet.wire.errors import NotAuthenticated
from callsheet.wire.identity import CreatedKey, CreateKeyRequest
from tests.support.http.accounts import People, Person
from tests.support.jobs.race_control import open_transaction, start_blocked

SESSION = "css_of-this-test"
REQUEST = CreateKeyRequest(name="a thief's")
LOCK = "SELECT 1 FROM users WHERE id = $1 FOR UPDATE"


@pytest.fixture
async def ann(shared_databases: Databases) -> Person:
    person = await People(
        Accounts(shared_databases, Passwords()), Keys(shared_databases, Quotas(shared_databases, QuotaSettings()))
    ).user()
    async with shared_databases.central.connection() as connection:
        await connection.execute(
            "INSERT INTO browser_sessions (id_hash, user_id, expires_at) VALUES ($1, $2, now() + interval '1 day')",
            hash_secret(f"{SESSION}{person.user.id}"),
            person.user.id,
        )
    return person


def create(databases: Databases, person: Person) -> Any:
    return Keys(databases, Quotas(databases, QuotaSettings())).create_own(
        person.user.id, f"{SESSION}{person.user.id}", REQUEST
    )


async def change(databases: Databases, person: Person, password_hash: str) -> None:
    async with databases.central.transaction() as connection:
        await replace_password(connection, person.user.id, password_hash)


async def living_keys(databases: Databases, person: Person) -> int:
    async with databases.central.connection() as connection:
        query = "SELECT count(*) FROM api_keys WHERE user_id = $1 AND revoked_at IS NULL"
        return int(await connection.fetchval(query, person.user.id))


async def test_a_key_created_before_a_password_change_is_revoked(
    shared_databases: Databases, other_databases: Databases, ann: Person
) -> None:
    fresh = await Passwords().hash("another long password")
    async with open_transaction(other_databases.central, LOCK, ann.user.id):
        creating, changing = await start_blocked(
            other_databases.central, create(shared_databases, ann), change(other_databases, ann, fresh)
        )
    created, _ = await asyncio.gather(creating, changing)
    assert isinstance(created, CreatedKey)
    assert await living_keys(shared_databases, ann) == 0


async def test_a_key_is_not_created_after_a_concurrent_password_change(
    shared_databases: Databases, other_databases: Databases, ann: Person
) -> None:
    fresh = await Passwords().hash("another long password")
    async with open_transaction(other_databases.central, LOCK, ann.user.id) as connection:
        await replace_password(connection, ann.user.id, fresh)
        (creating,) = await start_blocked(other_databases.central, create(shared_databases, ann))
    with pytest.raises(NotAuthenticated):
        await creating
    assert await living_keys(shared_databases, ann) == 0
