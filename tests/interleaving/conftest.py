"""Two control planes over the same databases, with nothing shared in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from callsheet.plumbing.database.databases import Databases, open_databases
from callsheet.settings import Settings
from tests.support.jobs.core import open_core
from tests.support.jobs.race import Race


@pytest.fixture(scope="package")
async def other_databases(shared_settings: Settings) -> AsyncIterator[Databases]:
    opened = await open_databases(shared_settings)
    yield opened
    await opened.close()


@pytest.fixture
async def race(shared_databases: Databases, other_databases: Databases) -> Race:
    one = await open_core(shared_databases, active_per_user=1000).prepare()
    two = open_core(other_databases, active_per_user=1000)
    two.workflow = one.workflow
    ann, bob = await one.member("pool_1", tokens=1000), await one.member("pool_2", tokens=1000)
    return Race(one, two, ann, bob, aside=await one.add_workflow())
