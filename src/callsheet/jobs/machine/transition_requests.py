"""The request for a transition of one job, and its result. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple
from uuid import UUID

from callsheet.dispatch.facts import JobCycle
from callsheet.jobs.machine.fingerprints import fingerprint_of
from callsheet.toolbox.logs import current_request_id

# Greater than every lease_seq.
ANY_LEASE = 2**63 - 1


@dataclass(frozen=True, slots=True)
class JobOutputFile:
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
    """The request to change the status of one job. The job changes only in this charge cycle and, if the request names
    a lease, under this lease.

    `lease_seq` must equal the job's. `up_to_lease_seq` must be at least the job's (the process that ends a lease does
    not know whether the job was ever started). `new_lease_seq` must be greater than the job's, and replaces it.
    """

    job: JobCycle
    actor: str
    lease_seq: int | None = None
    up_to_lease_seq: int | None = None
    new_lease_seq: int | None = None
    reason: str | None = None
    # The reason for operators, if users read another one: it may contain the text of a worker or a provider.
    reported: str | None = None
    error: Mapping[str, Any] | None = None
    result: Mapping[str, Any] | None = None
    provider_job_id: str | None = None
    outputs: Sequence[JobOutputFile] = ()
    # The result of a scrape; it becomes a product of the job's user.
    product: Mapping[str, Any] | None = None
    # When each part of the run happened, as its worker reported it.
    trace: Mapping[str, Any] | None = None
    # The id is read here and not where the event is written, because requests share statements, which run in the
    # context of one request.
    request_id: str | None = field(default_factory=current_request_id, compare=False)

    @property
    def lease_range(self) -> tuple[int, int]:
        """The least and the greatest lease_seq that the job may have."""
        if self.lease_seq is not None:
            return self.lease_seq, self.lease_seq
        return 0, ANY_LEASE if self.up_to_lease_seq is None else self.up_to_lease_seq

    def as_json(self) -> dict[str, Any]:
        """The request as JSON, without None values: most values are None, and each would cost time to write and to
        parse.
        """
        tenant_id, job_id, charge_cycle = self.job
        min_lease_seq, max_lease_seq = self.lease_range
        entry: dict[str, Any] = {
            "tenant_id": str(tenant_id),
            "job_id": str(job_id),
            "charge_cycle": charge_cycle,
            "min_lease_seq": min_lease_seq,
            "max_lease_seq": max_lease_seq,
            "actor": self.actor,
        }
        for name in _OPTIONAL:
            value = getattr(self, name)
            if value is not None:
                entry[name] = value
        if self.error is not None:
            entry["error_fingerprint"] = fingerprint_of(self.error)
        # An empty list is left out, so that the statement skips jobs without outputs.
        if self.outputs:
            entry["outputs"] = [output.as_json() for output in self.outputs]
        return entry


_OPTIONAL = ("reason", "reported", "error", "result", "provider_job_id", "product", "trace", "request_id")


class TransitionResult(NamedTuple):
    """A job whose status was changed."""

    tenant_id: UUID
    job_id: UUID
    charge_cycle: int
    user_id: UUID
    from_status: str
    status: str
    cost: int
    effect_id: UUID | None

    @property
    def job(self) -> JobCycle:
        return JobCycle(self.tenant_id, self.job_id, self.charge_cycle)


class StartedJob(NamedTuple):
    """A job that was started, with what its worker needs."""

    tenant_id: UUID
    job_id: UUID
    charge_cycle: int
    user_id: UUID
    from_status: str
    status: str
    cost: int
    effect_id: UUID | None
    payload: Mapping[str, Any]
    # The actor of a task.
    task_actor: str | None
