"""A transition of one job, as it is requested and as it happened. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import UUID

from callsheet.dispatch.facts import JobCycle
from callsheet.plumbing.sql import Row
from callsheet.wire.jobs import JobStatus


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

    def as_json(self) -> dict[str, Any]:
        return {
            "file_id": str(self.file_id),
            "disk": self.disk,
            "path": self.path,
            "name": self.name,
            "mime_type": self.mime_type,
            "size": self.size,
            "sha256": self.sha256,
            "metadata": self.metadata,
        }


@dataclass(frozen=True, slots=True)
class TransitionRequest:
    """The request to change the status of one job. The job changes only in this charge cycle and, if a lease is named,
    under this lease.

    `lease_seq` must equal the job's. `up_to_lease_seq` must be at least the job's (the process that ends a lease does
    not know whether the job was ever started). `new_lease_seq` must be greater than the job's, and replaces it.
    """

    job: JobCycle
    actor: str
    lease_seq: int | None = None
    up_to_lease_seq: int | None = None
    new_lease_seq: int | None = None
    reason: str | None = None
    error: Mapping[str, Any] | None = None
    result: Mapping[str, Any] | None = None
    provider_job_id: str | None = None
    outputs: Sequence[Output] = ()
    # The result of a scrape; it becomes a product of the job's user.
    product: Mapping[str, Any] | None = None

    def as_json(self) -> dict[str, Any]:
        """None values are left out: most values are None, and each would cost time to write and to parse."""
        tenant_id, job_id, charge_cycle = self.job
        entry: dict[str, Any] = {
            "tenant_id": str(tenant_id),
            "job_id": str(job_id),
            "charge_cycle": charge_cycle,
            "actor": self.actor,
        }
        for name in _SELDOM:
            value = getattr(self, name)
            if value is not None:
                entry[name] = value
        # Left out if empty, so that the statement skips jobs without outputs.
        if self.outputs:
            entry["outputs"] = [output.as_json() for output in self.outputs]
        return entry


_SELDOM = ("lease_seq", "up_to_lease_seq", "new_lease_seq", "reason", "error", "result", "provider_job_id", "product")


@dataclass(frozen=True, slots=True)
class TransitionResult:
    """A job whose status was changed."""

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

    @property
    def job(self) -> JobCycle:
        return JobCycle(self.tenant_id, self.job_id, self.charge_cycle)


def result_of(row: Row) -> TransitionResult:
    return TransitionResult(
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
