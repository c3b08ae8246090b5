"""The concurrency that a provider declares reaches the queue at submit, and is written no more often than needed."""

from __future__ import annotations

import pytest

from callsheet.tasks import limits as limits_module
from callsheet.tasks.limits import TaskLimits
from tests.support.jobs.core import Core


async def limit_of(core: Core, identifier: str) -> int | None:
    query = "SELECT max_concurrent FROM concurrency_limits WHERE identifier = $1"
    rows = await core.rows(core.databases.central, query, identifier)
    return rows[0]["max_concurrent"] if rows else None


async def test_a_declared_limit_is_written_again_only_if_it_changes(core: Core) -> None:
    limits = TaskLimits(core.room.dispatch.limits)
    await limits.declare("gpu", 2)
    await core.rows(core.databases.central, "DELETE FROM concurrency_limits")
    await limits.declare("gpu", 2)
    assert await limit_of(core, "gpu") is None
    await limits.declare("gpu", 3)
    assert await limit_of(core, "gpu") == 3


async def test_a_limit_that_an_admin_removed_is_restored_later(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = TaskLimits(core.room.dispatch.limits)
    await limits.declare("gpu", 2)
    await core.room.dispatch.limits.set("gpu", None, "admin")
    monkeypatch.setattr(limits_module, "FRESH_SECONDS", -1.0)
    await limits.declare("gpu", 2)
    assert await limit_of(core, "gpu") == 2


async def test_the_number_of_remembered_limits_is_bounded(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits_module, "MAX_REMEMBERED", 3)
    limits = TaskLimits(core.room.dispatch.limits)
    for number in range(7):
        await limits.declare(f"identifier-{number}", 1)
    assert len(limits._declared) <= 3
    assert await limit_of(core, "identifier-6") == 1


async def test_raising_a_limit_wakes_workers_that_wait_for_a_slot(core: Core) -> None:
    ann = await core.member()
    await core.room.dispatch.limits.declare("gpu", 0)
    await core.submit(ann, concurrency_identifier="gpu")
    assert await core.lease() is None
    before = len(core.notifications)
    await core.room.dispatch.limits.declare("gpu", 1)
    assert len(core.notifications) > before
    assert await core.lease() is not None
