"""Concurrent changes of operators on two control planes: one operator can always sign in, and no assignment is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from callsheet.fleet.fleets.fleets import Fleets
from callsheet.identity.access.keys import Keys
from callsheet.identity.access.passwords import Passwords
from callsheet.identity.accounts.accounts import Accounts
from callsheet.identity.accounts.management import UserManagement
from callsheet.identity.accounts.managers import COMMAND_LINE
from callsheet.identity.accounts.quotas import Quotas
from callsheet.plumbing.database.databases import Databases
from callsheet.settings import QuotaSettings
from callsheet.toolbox.ids import uuid7
from callsheet.wire.errors import WrongState
from callsheet.wire.fleet import ChangeWorkflowsRequest, CreateFleetRequest
from callsheet.wire.identity import Role
from tests.support.http.accounts import People, Person
from tests.support.jobs.core import open_core
from tests.support.jobs.race_control import open_transaction, start_blocked

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
    return People(Accounts(databases, Passwords()), Keys(databases, Quotas(databases, QuotaSettings())))


async def operators(databases: Databases) -> set[object]:
    async with databases.central.connection() as connection:
        return {row["id"] for row in await connection.fetch(OPERATORS)}


@pytest.mark.parametrize("change", CHANGES)
async def test_the_last_operator_stays(shared_databases: Databases, change: str) -> None:
    people = people_of(shared_databases)
    last = await people.admin()
    gone = await people.admin()
    management = UserManagement(shared_databases, Keys(shared_databases, Quotas(shared_databases, QuotaSettings())))
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
    one = UserManagement(shared_databases, Keys(shared_databases, Quotas(shared_databases, QuotaSettings())))
    two = UserManagement(other_databases, Keys(other_databases, Quotas(other_databases, QuotaSettings())))
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


LOCK_FLEET = "SELECT id FROM gpu_fleets WHERE id = $1 FOR UPDATE"


async def test_two_operators_who_change_a_fleet_at_once_keep_both_changes(shared_databases: Databases) -> None:
    core = open_core(shared_databases)
    kept, old, new, other = (f"{uuid7()}-{name}" for name in ("kept", "old", "new", "other"))
    for slug in (kept, old, new, other):
        await core.add_workflow(slug)
    here, there = Fleets(shared_databases), Fleets(shared_databases)
    fleet = await here.create(CreateFleetRequest(slug=kept, workflow_slugs=[kept, old]), "ann")
    async with open_transaction(shared_databases.central, LOCK_FLEET, fleet.id):
        changes = await start_blocked(
            shared_databases.central,
            here.change_workflows(fleet.id, ChangeWorkflowsRequest(add=[new]), "ann"),
            there.change_workflows(fleet.id, ChangeWorkflowsRequest(add=[other], remove=[old]), "bob"),
        )
    await asyncio.gather(*changes)
    assert (await here.get(fleet.id)).workflows == sorted([kept, new, other])


async def test_a_workflow_that_is_deleted_while_it_is_assigned_is_not_assigned(shared_databases: Databases) -> None:
    core = open_core(shared_databases)
    slug = f"{uuid7()}-gone"
    workflow_id = await core.add_workflow(slug)
    fleets = Fleets(shared_databases)
    fleet = await fleets.create(CreateFleetRequest(slug=slug), "ann")
    async with open_transaction(shared_databases.central, "DELETE FROM workflows WHERE id = $1", workflow_id):
        [change] = await start_blocked(
            shared_databases.central,
            fleets.change_workflows(fleet.id, ChangeWorkflowsRequest(add=[slug]), "bob"),
        )
    assert (await change).workflows == []
