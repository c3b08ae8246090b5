"""Two requests at once: the first use of an external id, and debits of one wallet."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest

from callsheet.identity.access.on_behalf import OnBehalf
from callsheet.identity.access.principal import Principal
from callsheet.plumbing.database.databases import Databases
from callsheet.wallet.ledger import balance_of, credit, debit
from callsheet.wire.errors import InvalidRequest, QuotaExceeded
from callsheet.wire.identity import Role
from callsheet.wire.tenant.service_keys import ServiceScope
from tests.support.jobs.core import Core
from tests.support.jobs.race_control import open_transaction, start_blocked

LOCK_TENANT = "SELECT 1 FROM tenants WHERE id = $1 FOR UPDATE"
LOCK_WALLET = "SELECT wallet_lock($1, $2)"


async def key_of_new_tenant(databases: Databases) -> Principal:
    tenant_id = uuid4()
    async with databases.central.connection() as connection:
        insert = "INSERT INTO tenants (id, slug, name, db_pool) VALUES ($1, $2, 'A tenant', 'pool_1')"
        await connection.execute(insert, tenant_id, f"tenant-{tenant_id.hex[:8]}")
    scopes = frozenset(ServiceScope)
    names = ("tenant", "pool_1", "", "shop", Role.USER, "api_key")
    return Principal(tenant_id, tenant_id, *names, key_id=uuid4(), service_scopes=scopes)  # type: ignore[arg-type]


@pytest.mark.parametrize(("ids", "users"), [(("1", "1"), 1), (("1", "2"), 1)])
async def test_two_first_uses_create_one_user_and_respect_the_limit(
    shared_databases: Databases, other_databases: Databases, ids: tuple[str, str], users: int
) -> None:
    key = await key_of_new_tenant(shared_databases)
    rooms = [OnBehalf(databases, 1) for databases in (shared_databases, other_databases)]
    async with open_transaction(other_databases.central, LOCK_TENANT, key.tenant_id):
        both = await start_blocked(
            other_databases.central,
            *(room.principal(key, f"external:{each}", writes=True) for room, each in zip(rooms, ids, strict=True)),
        )
    found = await asyncio.gather(*both, return_exceptions=True)
    created = {each.user_id for each in found if isinstance(each, Principal)}
    refused = [each for each in found if isinstance(each, QuotaExceeded)]
    assert (len(created), len(refused)) == (users, len(set(ids)) - 1)


async def test_two_debits_at_once_never_take_more_than_the_balance(core: Core) -> None:
    ann = await core.member("pool_1")
    await credit(ann.pool, ann.tenant_id, ann.user_id, 10, "pi_1")
    before = await balance_of(ann.pool, ann.tenant_id, ann.user_id)
    amount = before - 3
    async with open_transaction(ann.pool, LOCK_WALLET, ann.tenant_id, ann.user_id):
        both = await start_blocked(
            ann.pool,
            *(debit(ann.pool, ann.tenant_id, ann.user_id, amount, name, "Charged back") for name in ("dp_1", "dp_2")),
        )
    found = await asyncio.gather(*both, return_exceptions=True)
    assert sorted(type(each).__name__ for each in found) == [InvalidRequest.__name__, "tuple"]
    assert await balance_of(ann.pool, ann.tenant_id, ann.user_id) == 3
    await core.check()
