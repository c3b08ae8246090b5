"""Concurrent changes of operators on two control planes: at least one operator can always sign in."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from callsheet.identity.accounts import Accounts
from callsheet.identity.keys import Keys
from callsheet.identity.management import UserManagement
from callsheet.identity.managers import COMMAND_LINE
from callsheet.identity.passwords import Passwords
from callsheet.plumbing.databases import Databases
from callsheet.wire.errors import WrongState
from callsheet.wire.identity import Role
from tests.support.accounts import People, Person
from tests.support.race_control import open_transaction, start_blocked

Change = Callable[[UserManagement, Person], Awaitable[object]]

CHANGES: dict[str, Change] = {
    "disabled": lambda management, person: management.disable(COMMAND_LINE, person.user.id),
    "demoted": lambda management, person: management.change_role(COMMAND_LINE, person.user.id, Role.USER),
    "deleted": lambda management, person: management.anonymise(COMMAND_LINE, person.user.id),
    "tenant disabled": lambda management, person: management.disable_tenant(COMMAND_LINE, person.tenant.id),
}
OPERATORS = """
    SELECT u.id FROM users u JOIN tenants t ON t.id = u.tenant_id
    WHERE u.role = 'operator' AND u.disabled_at IS NULL AND t.disabled_at IS NULL
"""


def people_of(databases: Databases) -> People:
    return People(Accounts(databases, Passwords()), Keys(databases))


async def operators(databases: Databases) -> set[object]:
    async with databases.central.connection() as connection:
        return {row["id"] for row in await connection.fetch(OPERATORS)}


@pytest.mark.parametrize("change", CHANGES)
async def test_the_last_operator_stays(shared_databases: Databases, change: str) -> None:
    people = people_of(shared_databases)
    last = await people.admin()
    gone = await people.admin()
    management = UserManagement(shared_databases, Keys(shared_databases))
    await management.disable(COMMAND_LINE, gone.user.id)
    with pytest.raises(WrongState, match="Make another user an operator first"):
        await CHANGES[change](management, last)
    assert await operators(shared_databases) == {last.user.id}
    other = await people.admin()
    await CHANGES[change](management, last)
    assert await operators(shared_databases) == {other.user.id}


@pytest.mark.parametrize("second", CHANGES)
@pytest.mark.parametrize("first", CHANGES)
async def test_one_of_two_operators_who_disable_each_other_stays(
    shared_databases: Databases, other_databases: Databases, first: str, second: str
) -> None:
    people = people_of(shared_databases)
    ann, bob = await people.admin(), await people.admin()
    one = UserManagement(shared_databases, Keys(shared_databases))
    two = UserManagement(other_databases, Keys(other_databases))
    # Both have started before either has changed anything.
    async with open_transaction(other_databases.central, "SELECT 1 FROM users WHERE role = 'operator' FOR UPDATE"):
        tasks = await start_blocked(
            other_databases.central, _run(CHANGES[first](one, bob)), _run(CHANGES[second](two, ann))
        )
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results].count(WrongState) == 1, results
    assert len(await operators(shared_databases)) == 1


async def _run(change: Awaitable[object]) -> object:
    return await change
