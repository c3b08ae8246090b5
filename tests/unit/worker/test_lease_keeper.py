"""What an agent's heartbeats say."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import pytest

from callsheet.wire.worker.protocol import HeartbeatResponse, WorkerJob
from callsheet.worker.agent import lease_keeper
from callsheet.worker.agent.lease_keeper import LeaseKeeper
from callsheet.worker.agent.plane import Plane
from tests.support.waiting import until


class FakePlane:
    def __init__(self) -> None:
        self.heartbeats: list[dict[str, Any]] = []

    async def heartbeat(self, request: dict[str, Any]) -> HeartbeatResponse:
        self.heartbeats.append(request)
        return HeartbeatResponse(lease_expires_at=datetime.now(UTC), lease_ttl_seconds=60, cancel_requested=False)

    def pause(self, failures: int, error: Exception | None = None) -> float:
        return 0.0

    @property
    def starts(self) -> int:
        return sum(bool(each.get("run_started")) for each in self.heartbeats)


def keeper_of(plane: FakePlane) -> LeaseKeeper:
    job = SimpleNamespace(dispatch_id=1, lease_token=uuid4(), run_limit_seconds=60, lease_ttl_seconds=60)
    return LeaseKeeper(cast("WorkerJob", job), cast("Plane", plane), 3600, 0.0)


async def test_a_short_run_reports_its_start_with_its_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_keeper, "START_SECONDS", 3600.0)
    plane = FakePlane()
    keeper = LeaseKeeper(cast("WorkerJob", keeper_of(plane)._job), cast("Plane", plane), 3600, 3600)
    keeper.start()
    keeper.started()
    await asyncio.sleep(0)
    await keeper.announce([])
    await keeper.announce([])
    assert ([each.get("run_started") for each in plane.heartbeats], plane.starts) == ([True, None], 1)
    await keeper.stop()


async def test_a_run_that_goes_on_reports_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    plane = FakePlane()
    keeper = keeper_of(plane)
    keeper.start()
    keeper.started()
    await until(lambda: plane.starts == 1)
    await keeper.announce([])
    assert plane.starts == 1
    await keeper.stop()


async def test_the_place_of_a_run_is_given_back_when_the_engine_has_ended_it() -> None:
    keeper, freed = keeper_of(FakePlane()), []
    keeper.freed()
    keeper.on_freed = lambda: freed.append(1)
    keeper.freed()
    assert freed == [1]


async def test_every_heartbeat_names_all_leases_of_the_worker() -> None:
    plane, held = FakePlane(), [uuid4(), uuid4()]
    job = keeper_of(plane)._job
    keeper = LeaseKeeper(cast("WorkerJob", job), cast("Plane", plane), 3600, 0.0, held=lambda: held)
    await keeper.refresh()
    held.pop()
    await keeper.announce([])
    assert [len(each["active_leases"]) for each in plane.heartbeats] == [2, 1]
    assert plane.heartbeats[1]["active_leases"] == [str(held[0])]
