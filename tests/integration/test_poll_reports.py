"""What workers report about themselves with polls is shown to operators, for the current session only."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from callsheet.fleet.protocol.poll_reports import WorkerDiskMetrics
from callsheet.fleet.room import FleetRoom
from callsheet.wire.worker.protocol import PollRequest, ReportedDisk, ReportedEngine
from tests.support.http.fleet_api import bearer, join, registry
from tests.support.jobs.core import Core

NOW = datetime.now(UTC)
FIRST = ReportedEngine(name="self_hosted-1", slots=1, idle_share=0.25, measured_seconds=3600)
SECOND = ReportedEngine(name="self_hosted-2", slots=2, idle_share=None)


@pytest.fixture
def room(core: Core) -> FleetRoom:
    return registry(core.databases, core.room.leases)


@pytest.fixture
async def slug(core: Core) -> str:
    await core.add_workflow("measured")
    return "measured"


async def record(room: FleetRoom, token: str, request: PollRequest) -> None:
    room.poll_reports.record(await room.authentication.of(bearer(token)), request)


async def report(room: FleetRoom, token: str, *engines: ReportedEngine) -> None:
    room.poll_reports.record(await room.authentication.of(bearer(token)), PollRequest(engine_use=list(engines)))
    await room.poll_reports.tick(NOW)


async def test_the_newest_report_of_each_engine_is_shown(room: FleetRoom, slug: str) -> None:
    worker, silent = await join(room, "gpu-1", slug), await join(room, "gpu-2", slug)
    await report(room, worker.token, SECOND)
    await report(room, worker.token, FIRST, SECOND)
    shown = await room.workers.get("gpu-1")
    assert [engine.model_dump() for engine in shown.engine_use] == [FIRST.model_dump(), SECOND.model_dump()]
    assert shown.engine_use_at is not None
    # A poll without the field changes nothing, and a worker that never sends it is shown without.
    room.poll_reports.record(await room.authentication.of(bearer(silent.token)), PollRequest())
    await room.poll_reports.tick(NOW)
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
    room.poll_reports.record(earlier, PollRequest(engine_use=[FIRST]))
    await room.poll_reports.tick(NOW)
    assert (await room.workers.get("gpu-1")).engine_use == []


async def test_the_report_of_a_worker_that_left_is_dropped_and_others_are_kept(
    core: Core, room: FleetRoom, slug: str
) -> None:
    gone, here = await join(room, "gpu-1", slug), await join(room, "gpu-2", slug)
    await report(room, gone.token, FIRST)
    for worker in (gone, here):
        await record(room, worker.token, PollRequest(engine_use=[FIRST]))
    await core.rows(core.databases.central, "DELETE FROM comfyui_workers WHERE worker_id = 'gpu-1'")
    await room.poll_reports.tick(NOW)
    rows = await core.rows(core.databases.central, "SELECT worker_id FROM worker_engine_use")
    assert [row["worker_id"] for row in rows] == ["gpu-2"]


@pytest.mark.parametrize("wrong", [{"idle_share": 1.5}, {"idle_share": float("nan")}, {"slots": -1}, {"slots": None}])
def test_a_share_outside_of_its_limits_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        PollRequest.model_validate({"engine_use": [{"name": "a", "slots": 1, **wrong}]})


async def test_the_disk_and_the_capabilities_of_polls_are_kept_and_shown(
    core: Core, room: FleetRoom, slug: str
) -> None:
    worker = await join(room, "gpu-1", slug, capabilities={"gpu": "L4", "driver": "550"})
    other = await join(room, "gpu-2", slug)
    assert (await room.workers.get("gpu-1")).disk is None
    await record(room, worker.token, PollRequest(disk=ReportedDisk(free_bytes=5, size_bytes=100)))
    await record(room, worker.token, PollRequest(capabilities={"driver": "560", "note": "new"}))
    # Workers of the source design send an empty object with each poll.
    await record(room, worker.token, PollRequest(capabilities={}))
    await record(room, other.token, PollRequest(disk=ReportedDisk(free_bytes=3, size_bytes=100)))
    await room.poll_reports.tick(NOW)
    shown = await room.workers.get("gpu-1")
    assert shown.disk is not None
    assert (shown.disk.free_bytes, shown.disk.size_bytes) == (5, 100)
    assert shown.capabilities == {"gpu": "L4", "driver": "560", "note": "new"}
    # The next report has only one of the two. The other one stays.
    await record(room, worker.token, PollRequest(disk=ReportedDisk(free_bytes=4, size_bytes=100)))
    await room.poll_reports.tick(NOW)
    shown = await room.workers.get("gpu-1")
    assert shown.disk is not None
    assert (shown.disk.free_bytes, shown.capabilities["driver"]) == (4, "560")
    [families] = WorkerDiskMetrics(room.poll_reports).collect()
    assert [(sample.labels["worker"], sample.value) for sample in families.samples] == [("gpu-2", 3), ("gpu-1", 4)]


async def test_a_new_session_starts_without_the_machine_of_the_one_before(
    core: Core, room: FleetRoom, slug: str
) -> None:
    worker = await join(room, "gpu-1", slug, capabilities={"gpu": "L4"})
    facts = PollRequest(disk=ReportedDisk(free_bytes=5, size_bytes=100), capabilities={"gpu": "L40"})
    await record(room, worker.token, facts)
    await room.poll_reports.tick(NOW)
    await core.rows(core.databases.central, "UPDATE comfyui_workers SET session_id = session_id + 1")
    shown = await room.workers.get("gpu-1")
    assert (shown.disk, shown.capabilities) == (None, {"gpu": "L4"})
    await record(room, worker.token, PollRequest(capabilities={"gpu": "H100"}))
    await room.poll_reports.tick(NOW)
    shown = await room.workers.get("gpu-1")
    assert (shown.disk, shown.capabilities) == (None, {"gpu": "H100"})


async def test_a_report_is_kept_while_the_database_is_away(room: FleetRoom, slug: str) -> None:
    worker = await join(room, "gpu-1", slug)
    await record(room, worker.token, PollRequest(disk=ReportedDisk(free_bytes=5, size_bytes=100)))
    databases = room.poll_reports._databases
    await databases.central.close()
    with pytest.raises(Exception, match=r".+"):
        await room.poll_reports.tick(NOW)
    await databases.central.open()
    await record(room, worker.token, PollRequest(capabilities={"gpu": "L4"}))
    await room.poll_reports.tick(NOW)
    shown = await room.workers.get("gpu-1")
    assert shown.disk is not None
    assert (shown.disk.free_bytes, shown.capabilities) == (5, {"gpu": "L4"})


@pytest.mark.parametrize("wrong", [{"free_bytes": -1}, {"size_bytes": 2**60}, {"free_bytes": None}])
def test_a_disk_outside_of_its_limits_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        PollRequest.model_validate({"disk": {"free_bytes": 1, "size_bytes": 1, **wrong}})
