"""Records what workers report about themselves with polls: outside the polls, twice a minute for all workers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from pydantic import JsonValue

from callsheet.fleet.protocol.authentication import WorkerPrincipal
from callsheet.fleet.registry.registry import ALIVE_SECONDS
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import statements
from callsheet.toolbox.loops import Loop
from callsheet.wire.worker.protocol import PollRequest, ReportedDisk, ReportedEngine

SQL = statements("callsheet.fleet.protocol")

# Maximum number of series of /metrics with a worker's name: the workers with the least free space are shown.
MAX_SERIES = 1000


@dataclass(slots=True)
class _Reported:
    """The newest report of each kind, of one session."""

    session_id: int
    engines: Sequence[ReportedEngine] | None = None
    disk: ReportedDisk | None = None
    capabilities: dict[str, JsonValue] | None = None

    def add(self, request: PollRequest) -> None:
        self.engines = self.engines if request.engine_use is None else request.engine_use
        self.disk = self.disk if request.disk is None else request.disk
        # Some workers send an empty object with each poll, which says nothing.
        self.capabilities = request.capabilities or self.capabilities

    def fill(self, older: _Reported) -> None:
        if older.session_id == self.session_id:
            self.engines = older.engines if self.engines is None else self.engines
            self.disk = older.disk if self.disk is None else self.disk
            self.capabilities = older.capabilities if self.capabilities is None else self.capabilities


class FreeDisk(NamedTuple):
    worker_id: str
    free_bytes: int


class PollReports(Loop):
    name = "poll_reports"
    interval_seconds = 30.0

    def __init__(self, databases: Databases):
        super().__init__()
        self._databases = databases
        self._reported: dict[str, _Reported] = {}
        # The disks of live workers at the last tick, for /metrics. Every control plane knows them all.
        self.disks: Sequence[FreeDisk] = ()

    def record(self, worker: WorkerPrincipal, request: PollRequest) -> None:
        """Keeps what this poll reports. Most polls report nothing."""
        if request.engine_use is None and request.disk is None and not request.capabilities:
            return
        known = self._reported.get(worker.worker_id)
        if known is None or known.session_id != worker.session_id:
            known = self._reported[worker.worker_id] = _Reported(worker.session_id)
        known.add(request)

    async def tick(self, now: datetime) -> None:
        reported, self._reported = self._reported, {}
        try:
            await self._write(reported)
        except BaseException:
            for worker_id, older in reported.items():
                self._reported.setdefault(worker_id, _Reported(older.session_id)).fill(older)
            raise
        async with self._databases.central.ordinary() as connection:
            self.disks = await SQL["disks_of_workers"].rows(
                connection, FreeDisk, alive_seconds=ALIVE_SECONDS, limit=MAX_SERIES
            )

    async def _write(self, reported: dict[str, _Reported]) -> None:
        used = {worker_id: each for worker_id, each in reported.items() if each.engines is not None}
        machines = {
            worker_id: each
            for worker_id, each in reported.items()
            if each.disk is not None or each.capabilities is not None
        }
        async with self._databases.central.connection() as connection:
            if used:
                await SQL["record_engine_use"].run(
                    connection,
                    worker_ids=list(used),
                    session_ids=[each.session_id for each in used.values()],
                    engines=[
                        json.dumps([engine.model_dump() for engine in each.engines or ()]) for each in used.values()
                    ],
                )
            if machines:
                await SQL["record_machines"].run(
                    connection,
                    worker_ids=list(machines),
                    session_ids=[each.session_id for each in machines.values()],
                    free_bytes=[each.disk and each.disk.free_bytes for each in machines.values()],
                    size_bytes=[each.disk and each.disk.size_bytes for each in machines.values()],
                    capabilities=[each.capabilities and json.dumps(each.capabilities) for each in machines.values()],
                )


class WorkerDiskMetrics(Collector):
    """The free space of workers at the last tick."""

    def __init__(self, reports: PollReports):
        self._reports = reports

    def collect(self) -> Iterable[Metric]:
        free = GaugeMetricFamily(
            "callsheet_worker_disk_free_bytes", "Free space on the disk of a live worker.", labels=["worker"]
        )
        for disk in self._reports.disks:
            free.add_metric([disk.worker_id], disk.free_bytes)
        yield free
