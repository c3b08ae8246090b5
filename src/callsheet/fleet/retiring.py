"""The autoscaler's scale-in: a worker is drained first, and ended only when it holds no lease. Nothing here commits.

The autoscaler undrains or ends only workers that it drained itself, never workers that a person drained.
"""

from __future__ import annotations

from collections.abc import Sequence

from callsheet.fleet.audit import Event, write
from callsheet.plumbing.sql import Connection, statements

SQL = statements("callsheet.fleet")
AUTOSCALER = "autoscaler"


async def retire(
    connection: Connection, worker_ids: Sequence[str], reason: str, *, also_busy: bool = False
) -> list[str]:
    """Drains the idle workers, or all (`also_busy`); returns their ids. After the commit they get no lease."""
    if not worker_ids:
        return []
    await SQL["lock_drains"].run(connection)
    rows = await SQL["retire_workers"].rows(
        connection, worker_ids=list(worker_ids), drained_by=AUTOSCALER, reason=reason, also_busy=also_busy
    )
    return await _told(connection, [row["worker_id"] for row in rows], "drain", reason)


async def reinstate(connection: Connection, worker_ids: Sequence[str]) -> list[str]:
    """Undrains the workers that the autoscaler drained and is not ending yet; returns their ids."""
    if not worker_ids:
        return []
    rows = await SQL["reinstate_workers"].rows(connection, worker_ids=list(worker_ids), drained_by=AUTOSCALER)
    return await _told(connection, [row["worker_id"] for row in rows], "undrain")


async def begin_to_end(connection: Connection, worker_ids: Sequence[str]) -> list[str]:
    """Marks workers as ending; returns those marked: idle ones whose drain is the autoscaler's."""
    if not worker_ids:
        return []
    rows = await SQL["begin_to_end"].rows(connection, worker_ids=list(worker_ids), drained_by=AUTOSCALER)
    return await _told(connection, [row["worker_id"] for row in rows], "ending")


async def forget_ended(connection: Connection, worker_ids: Sequence[str]) -> None:
    """Deletes the drains of workers that no longer exist: a new worker with the same id is not drained."""
    if worker_ids:
        await SQL["forget_ended"].run(connection, worker_ids=list(worker_ids), drained_by=AUTOSCALER)


async def _told(connection: Connection, worker_ids: list[str], event: str, reason: str | None = None) -> list[str]:
    """Writes to the workers' logs, and notifies waiting polls at the commit."""
    rows = await SQL["sessions_of_workers"].rows(connection, worker_ids=worker_ids)
    sessions = {row["worker_id"]: row["session_id"] for row in rows}
    details = {} if reason is None else {"reason": reason}
    await write(
        connection, [Event(name, sessions.get(name), event, AUTOSCALER, details=details) for name in worker_ids]
    )
    for name in worker_ids:
        await SQL["tell_worker_reassigned"].run(connection, worker_id=name)
    return sorted(worker_ids)
