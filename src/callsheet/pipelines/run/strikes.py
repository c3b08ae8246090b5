"""Stops a run because of failures, so that it does not spend its budget on more failures.

A strike is one failure. `pipelines.strikes` sets how many strikes exclude a candidate as a parent. It also sets how
many excluded branches, or how many failed jobs of the first step in a row, stop the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from callsheet.pipelines.rows import FailureCounts
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.wire.pipelines.pipelines import RunReason, RunStatus

SQL = statements("callsheet.pipelines.run", "loop_statements.sql")
MAX_DETAIL_LENGTH = 1000
STOPPED = {
    RunReason.BASE_FAILED: "Jobs of the first step that failed in a row: {strikes}.",
    RunReason.BRANCHES_FAILED: "Branches that were given up without a child: {strikes}.",
}


def why_stopped(run: FailureCounts) -> RunReason | None:
    if run.base_failures >= run.strikes:
        return RunReason.BASE_FAILED
    return RunReason.BRANCHES_FAILED if run.dead_branches >= run.strikes else None


async def stop_after_strikes(
    connection: Connection, names: Mapping[str, Any], run: FailureCounts, slug: str, message: str
) -> None:
    """Stops the run if it has too many failures. The run is locked, and a failure was just counted."""
    reason = why_stopped(run)
    if reason is None or run.status != RunStatus.ACTIVE:
        return
    counted = STOPPED[reason].format(strikes=run.strikes)
    detail = f"{counted} The last failure, in the step {slug!r}: {message}"[:MAX_DETAIL_LENGTH]
    await SQL["stop_run"].run(connection, **names, reason=reason.value, reason_detail=detail)
