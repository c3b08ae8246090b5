"""The autoscaler's scale-in: a worker is drained first, and ended only when it holds no lease. The callers commit.

The autoscaler undrains or ends only workers that it drained itself, never workers that a person drained.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from callsheet.fleet.registry.worker_log import Event, write
from callsheet.plumbing.database.sql import Connection, statements

DRAIN_SQL = statements("callsheet.fleet.fleets", "drain_statements.sql")
REGISTRY_LOG_SQL = statements("callsheet.fleet.registry", "log_statements.sql")
REGISTRY_REGISTRATION_SQL = statements("callsheet.fleet.registry", "registration_statements.sql")

AUTOSCALER = "autoscaler"


class WorkerSessionRow(NamedTuple):
    worker_id: str
    session_id: int


async def retire(
    connection: Connection, worker_ids: Sequence[str], reason: str, *, also_busy: bool = False
) -> list[str]:
    """Drains the idle workers, or with `also_busy` all workers, and returns their ids. After the commit they get no
    lease.
    """
    if not worker_ids:
        return []
    await DRAIN_SQL["lock_drains"].run(connection)
    drained = await DRAIN_SQL["retire_workers"].column(
        connection, worker_ids=list(worker_ids), drained_by=AUTOSCALER, reason=reason, also_busy=also_busy
    )
    return await _record(connection, drained, "drain", reason)


async def reinstate(connection: Connection, worker_ids: Sequence[str]) -> list[str]:
    """Undrains the workers that the autoscaler drained and is not ending yet; returns their ids."""
    if not worker_ids:
        return []
    undrained = await DRAIN_SQL["reinstate_workers"].column(
        connection, worker_ids=list(worker_ids), drained_by=AUTOSCALER
    )
    return await _record(connection, undrained, "undrain")


async def begin_to_end(connection: Connection, worker_ids: Sequence[str]) -> list[str]:
    """Marks workers as ending, and returns the ids of the marked workers: idle workers that the autoscaler drained."""
    if not worker_ids:
        return []
    marked = await DRAIN_SQL["begin_to_end"].column(connection, worker_ids=list(worker_ids), drained_by=AUTOSCALER)
    return await _record(connection, marked, "ending")


async def forget_ended(connection: Connection, worker_ids: Sequence[str]) -> None:
    """Deletes the drains of workers that no longer exist: a new worker with the same id is not drained."""
    if worker_ids:
        await DRAIN_SQL["forget_ended"].run(connection, worker_ids=list(worker_ids), drained_by=AUTOSCALER)


async def _record(connection: Connection, worker_ids: list[str], event: str, reason: str | None = None) -> list[str]:
    """Writes to the workers' logs, and notifies waiting polls at the commit."""
    rows = await REGISTRY_LOG_SQL["sessions_of_workers"].rows(connection, WorkerSessionRow, worker_ids=worker_ids)
    sessions = {row.worker_id: row.session_id for row in rows}
    details = {} if reason is None else {"reason": reason}
    await write(
        connection, [Event(name, sessions.get(name), event, AUTOSCALER, details=details) for name in worker_ids]
    )
    for name in worker_ids:
        await REGISTRY_REGISTRATION_SQL["notify_worker_reassigned"].run(connection, worker_id=name)
    return sorted(worker_ids)
