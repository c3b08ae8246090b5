"""How the autoscaler lets workers go: drained first, ended only when they hold nothing. Nothing here commits.

Drains of people stay people's: only what the autoscaler drained is given work again, or ended, by it.
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
    """Drains those that hold nothing, or all of them; returns whom. When it is committed, no lease to them follows."""
    if not worker_ids:
        return []
    await SQL["lock_drains"].run(connection)
    rows = await SQL["retire_workers"].rows(
        connection, worker_ids=list(worker_ids), drained_by=AUTOSCALER, reason=reason, also_busy=also_busy
    )
    return await _told(connection, [row["worker_id"] for row in rows], "drain", reason)


async def reinstate(connection: Connection, worker_ids: Sequence[str]) -> list[str]:
    """Lets those have jobs again that the autoscaler drained and does not end yet; returns whom."""
    if not worker_ids:
        return []
    rows = await SQL["reinstate_workers"].rows(connection, worker_ids=list(worker_ids), drained_by=AUTOSCALER)
    return await _told(connection, [row["worker_id"] for row in rows], "undrain")


async def begin_to_end(connection: Connection, worker_ids: Sequence[str]) -> list[str]:
    """Records that these are being ended; returns those that hold nothing and that nobody else has drained."""
    if not worker_ids:
        return []
    rows = await SQL["begin_to_end"].rows(connection, worker_ids=list(worker_ids), drained_by=AUTOSCALER)
    return await _told(connection, [row["worker_id"] for row in rows], "ending")


async def forget_ended(connection: Connection, worker_ids: Sequence[str]) -> None:
    """Of workers that no longer exist: a new one of the same id is not drained."""
    if worker_ids:
        await SQL["forget_ended"].run(connection, worker_ids=list(worker_ids), drained_by=AUTOSCALER)


async def _told(connection: Connection, worker_ids: list[str], event: str, reason: str | None = None) -> list[str]:
    """In the workers' log; and a poll that waits hears of it with the commit."""
    rows = await SQL["sessions_of_workers"].rows(connection, worker_ids=worker_ids)
    sessions = {row["worker_id"]: row["session_id"] for row in rows}
    details = {} if reason is None else {"reason": reason}
    await write(
        connection, [Event(name, sessions.get(name), event, AUTOSCALER, details=details) for name in worker_ids]
    )
    for name in worker_ids:
        await SQL["tell_worker_reassigned"].run(connection, worker_id=name)
    return sorted(worker_ids)
