"""Asks AWS again about instances that were admitted while AWS was unreachable."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from callsheet.fleet.operate.workers import Workers
from callsheet.fleet.registry.asg import AsgVerdict, AutoscalingGroups
from callsheet.fleet.registry.worker_log import Event, write
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import statements
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.loops import Loop

SQL = statements("callsheet.fleet.registry", "sweep_statements.sql")

log = get_logger(__name__)
ACTOR = "instance_validator"
BATCH = 20


class UnverifiedWorker(NamedTuple):
    worker_id: str
    session_id: int


class InstanceValidator(Loop):
    """Checks these instances. Safe on any number of control planes: a repeated result is not written again, or is
    written unchanged.
    """

    name = "instance_validator"
    interval_seconds = 60.0

    def __init__(self, databases: Databases, groups: AutoscalingGroups, workers: Workers):
        super().__init__()
        self._databases = databases
        self._groups = groups
        self._workers = workers

    async def tick(self, now: datetime) -> None:
        async with self._databases.central.ordinary() as connection:
            workers = await SQL["find_unverified_workers"].rows(connection, UnverifiedWorker, limit=BATCH)
        for worker_id, session_id in workers:
            verdict = await self._groups.verdict(worker_id)
            if verdict.membership == "unknown":
                # AWS is unreachable for the other workers, too.
                return
            if verdict.membership == "stranger":
                log.warning("worker.stranger_revoked", worker_id=worker_id, reason=verdict.reason)
                await self._workers.revoke(worker_id, ACTOR)
            else:
                await self._confirm(worker_id, session_id, verdict)

    async def _confirm(self, worker_id: str, session_id: int, verdict: AsgVerdict) -> None:
        """Records that the instance is in one of our groups, or that the check was switched off."""
        async with self._databases.central.transaction() as connection:
            settled = await SQL["settle_unverified"].run(connection, worker_id=worker_id, session_id=session_id)
            if settled and verdict.membership == "member":
                details = {"autoscaling_group": verdict.group}
                await write(connection, [Event(worker_id, session_id, "asg_validated", ACTOR, details=details)])
