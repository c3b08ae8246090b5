"""Records workers' reports about their engines: outside the polls, twice a minute for all workers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

from callsheet.fleet.principal import WorkerPrincipal
from callsheet.fleet.sql import PROTOCOL_SQL
from callsheet.plumbing.databases import Databases
from callsheet.toolbox.loops import Loop
from callsheet.wire.worker import ReportedEngine


class EngineUseRecorder(Loop):
    name = "engine_use"
    interval_seconds = 30.0

    def __init__(self, databases: Databases):
        super().__init__()
        self._databases = databases
        # By worker: the session and the newest report.
        self._reported: dict[str, tuple[int, Sequence[ReportedEngine]]] = {}

    def record(self, worker: WorkerPrincipal, engines: Sequence[ReportedEngine] | None) -> None:
        """Keeps the newest report. `engines` is None if this poll reports nothing."""
        if engines is not None:
            self._reported[worker.worker_id] = worker.session_id, engines

    async def tick(self, now: datetime) -> None:
        reported, self._reported = self._reported, {}
        if not reported:
            return
        try:
            async with self._databases.central.connection() as connection:
                await PROTOCOL_SQL["record_engine_use"].run(
                    connection,
                    worker_ids=list(reported),
                    session_ids=[session_id for session_id, _ in reported.values()],
                    engines=[
                        json.dumps([engine.model_dump() for engine in engines]) for _, engines in reported.values()
                    ],
                )
        except BaseException:
            self._reported = {**reported, **self._reported}
            raise
