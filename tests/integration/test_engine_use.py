"""Workers' reports about the use of their engines are shown to operators, for the current session only."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from callsheet.fleet.room import FleetRoom
from callsheet.wire.worker import PollRequest, ReportedEngine
from tests.support.core import Core
from tests.support.fleet_api import bearer, join, registry

NOW = datetime.now(UTC)
FIRST = ReportedEngine(name="self_hosted-1", places=1, idle_share=0.25, measured_seconds=3600)
SECOND = ReportedEngine(name="self_hosted-2", places=2, idle_share=None)


@pytest.fixture
def room(core: Core) -> FleetRoom:
    return registry(core.databases, core.room.lease_reports)


@pytest.fixture
async def slug(core: Core) -> str:
    await core.add_workflow("measured")
    return "measured"


async def report(room: FleetRoom, token: str, *engines: ReportedEngine) -> None:
    room.engine_use.record(await room.authentication.of(bearer(token)), list(engines))
    await room.engine_use.tick(NOW)


async def test_the_newest_report_of_each_engine_is_shown(room: FleetRoom, slug: str) -> None:
    worker, silent = await join(room, "gpu-1", slug), await join(room, "gpu-2", slug)
    await report(room, worker.token, SECOND)
    await report(room, worker.token, FIRST, SECOND)
    shown = await room.workers.get("gpu-1")
    assert [engine.model_dump() for engine in shown.engine_use] == [FIRST.model_dump(), SECOND.model_dump()]
    assert shown.engine_use_at is not None
    # A poll without the field changes nothing, and a worker that never sends it is shown without.
    room.engine_use.record(await room.authentication.of(bearer(silent.token)), None)
    await room.engine_use.tick(NOW)
    without = await room.workers.get("gpu-2")
    assert (without.engine_use, without.engine_use_at) == ([], None)


async def test_a_new_session_starts_without_the_report_of_the_one_before(
    core: Core, room: FleetRoom, slug: str
) -> None:
    first = await join(room, "gpu-1", slug)
    earlier = await room.authentication.of(bearer(first.token))
    await report(room, first.token, FIRST)
    await core.rows(core.databases.central, "UPDATE comfyui_workers SET session_id = session_id + 1")
    assert (await room.workers.get("gpu-1")).engine_use == []
    # A poll of the session before, which arrived late.
    room.engine_use.record(earlier, [FIRST])
    await room.engine_use.tick(NOW)
    assert (await room.workers.get("gpu-1")).engine_use == []


async def test_the_report_of_a_worker_that_left_is_dropped_and_others_are_kept(
    core: Core, room: FleetRoom, slug: str
) -> None:
    gone, here = await join(room, "gpu-1", slug), await join(room, "gpu-2", slug)
    await report(room, gone.token, FIRST)
    for worker in (gone, here):
        room.engine_use.record(await room.authentication.of(bearer(worker.token)), [FIRST])
    await core.rows(core.databases.central, "DELETE FROM comfyui_workers WHERE worker_id = 'gpu-1'")
    await room.engine_use.tick(NOW)
    rows = await core.rows(core.databases.central, "SELECT worker_id FROM worker_engine_use")
    assert [row["worker_id"] for row in rows] == ["gpu-2"]


@pytest.mark.parametrize("wrong", [{"idle_share": 1.5}, {"idle_share": float("nan")}, {"places": -1}, {"places": None}])
def test_a_share_outside_of_its_limits_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        PollRequest.model_validate({"engine_use": [{"name": "a", "places": 1, **wrong}]})
