"""Moving jobs: the one statement that changes the status of an existing job.

The state machine defines the allowed moves; LEDGER defines the wallet entry of each happening.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any, Literal
from uuid import UUID

from callsheet.jobs.states import PATHS, Happening, target
from callsheet.plumbing.sql import Connection, Row, statements
from callsheet.toolbox.logs import get_logger
from callsheet.wire.jobs import TERMINAL, JobStatus

SQL = statements("callsheet.jobs")
log = get_logger(__name__)

LEDGER: Mapping[Happening, Literal["JOB_RESERVE", "JOB_CONSUME", "JOB_REFUND"]] = MappingProxyType(
    {
        Happening.COMPLETE: "JOB_CONSUME",
        Happening.FAIL: "JOB_REFUND",
        Happening.CANCEL: "JOB_REFUND",
        Happening.EXPIRE: "JOB_REFUND",
        Happening.RETRY: "JOB_RESERVE",
    }
)


@dataclass(frozen=True, slots=True)
class Output:
    """An object that a completed job produced; it becomes a file of the job's user."""

    file_id: UUID
    disk: Literal["local", "s3"]
    path: str
    name: str
    mime_type: str
    size: int
    sha256: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Move:
    """The move of one job. The job moves only in this charge cycle and, if a lease is named, under this lease.

    `lease_seq` must equal the job's. `up_to_lease_seq` must be at least the job's (the process that ends a lease does
    not know whether the job was ever started). `new_lease_seq` must be greater than the job's, and replaces it.
    """

    tenant_id: UUID
    job_id: UUID
    charge_cycle: int
    actor: str
    lease_seq: int | None = None
    up_to_lease_seq: int | None = None
    new_lease_seq: int | None = None
    reason: str | None = None
    error: Mapping[str, Any] | None = None
    result: Mapping[str, Any] | None = None
    provider_job_id: str | None = None
    data: Mapping[str, Any] | None = None
    outputs: Sequence[Output] = ()
    # The result of a scrape; it becomes a product of the job's user.
    product: Mapping[str, Any] | None = None


_SELDOM = (
    *("lease_seq", "up_to_lease_seq", "new_lease_seq", "reason", "error", "result", "provider_job_id", "data"),
    "product",
)


@dataclass(frozen=True, slots=True)
class Moved:
    tenant_id: UUID
    job_id: UUID
    user_id: UUID
    kind: str
    cost: int
    from_status: JobStatus
    status: JobStatus
    charge_cycle: int
    lease_seq: int
    last_seq: int
    last_user_seq: int
    effect_id: UUID | None
    video_id: UUID | None
    payload: Mapping[str, Any] | None
    # The actor of a task.
    task_actor: str | None


async def move_jobs(
    connection: Connection,
    happening: Happening,
    moves: Sequence[Move],
    *,
    tell_central: Literal["dispatch", "close"] | None = None,
    only_from: JobStatus | None = None,
) -> dict[tuple[UUID, UUID], Moved]:
    """Moves the jobs that may move, and returns them by (tenant, job); the others are not in the result."""
    rows = await SQL["move"].rows(
        connection,
        moves=[_as_json(move) for move in moves],
        **arguments(happening, tell_central=tell_central, only_from=only_from),
    )
    return {(row["tenant_id"], row["job_id"]): _moved(row) for row in rows}


@cache
def arguments(
    happening: Happening,
    *,
    tell_central: Literal["dispatch", "close"] | None = None,
    only_from: JobStatus | None = None,
) -> Mapping[str, Any]:
    """The statement's arguments for a happening, which are the same for every job."""
    origins, numbers, from_statuses, to_statuses = _steps(happening, only_from)
    is_end = target(happening) in TERMINAL
    return {
        "origins": origins,
        "numbers": numbers,
        "from_statuses": from_statuses,
        "to_statuses": to_statuses,
        "ledger": LEDGER.get(happening),
        "is_retry": happening is Happening.RETRY,
        "is_end": is_end,
        "completed": JobStatus.COMPLETED.value,
        # The outbox row is deleted once the dispatch exists or is no longer needed.
        "sent": happening in (Happening.QUEUE, Happening.BEGIN) or is_end,
        "with_payload": happening in (Happening.START, Happening.BEGIN),
        "outbox_action": tell_central,
    }


def _steps(happening: Happening, only_from: JobStatus | None) -> tuple[list[str], list[int], list[str], list[str]]:
    steps = [
        (origin.value, number, step.from_status.value, step.to_status.value)
        for origin, path in PATHS[happening].items()
        if only_from in (None, origin)
        for number, step in enumerate(path, 1)
    ]
    origins, numbers, from_statuses, to_statuses = zip(*steps, strict=True)
    return list(origins), list(numbers), list(from_statuses), list(to_statuses)


def _as_json(move: Move) -> dict[str, Any]:
    """None values are left out: most values are None, and each would cost time to write and to parse."""
    entry: dict[str, Any] = {
        "tenant_id": str(move.tenant_id),
        "job_id": str(move.job_id),
        "charge_cycle": move.charge_cycle,
        "actor": move.actor,
    }
    for name in _SELDOM:
        value = getattr(move, name)
        if value is not None:
            entry[name] = value
    # Left out if empty, so that the statement skips jobs without outputs.
    if move.outputs:
        entry["outputs"] = [_output_as_json(output) for output in move.outputs]
    return entry


def _output_as_json(output: Output) -> dict[str, Any]:
    return {
        "file_id": str(output.file_id),
        "disk": output.disk,
        "path": output.path,
        "name": output.name,
        "mime_type": output.mime_type,
        "size": output.size,
        "sha256": output.sha256,
        "metadata": output.metadata,
    }


def _moved(row: Row) -> Moved:
    return Moved(
        tenant_id=row["tenant_id"],
        job_id=row["job_id"],
        user_id=row["user_id"],
        kind=row["kind"],
        cost=row["cost"],
        from_status=JobStatus(row["from_status"]),
        status=JobStatus(row["status"]),
        charge_cycle=row["charge_cycle"],
        lease_seq=row["lease_seq"],
        last_seq=row["last_seq"],
        last_user_seq=row["last_user_seq"],
        effect_id=row["effect_id"],
        video_id=row["video_id"],
        payload=row["payload"],
        task_actor=row["task_actor"],
    )
