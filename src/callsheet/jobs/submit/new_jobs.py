"""A job to submit: its fields, and the form in which the database gets it. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from callsheet.dispatch.facts import QueueEntry
from callsheet.jobs.show.descriptions import MAX_TITLE_LENGTH, JobDescription
from callsheet.jobs.submit.active_limits import CountedAs, counted_as
from callsheet.plumbing.database.sql import AsJson, copied, names_of
from callsheet.plumbing.http.request_fields import fields_of, hash_of
from callsheet.settings import JobSettings
from callsheet.toolbox.logs import current_request_id
from callsheet.wire.catalog import RefundOnCancel
from callsheet.wire.jobs import Job, JobStatus

FIRST_CYCLE = 1
# The fields by which the jobs of two requests are compared that were not built from a request of a client.
COMPARED = (
    *("kind", "workflow_id", "payload", "cost", "provider", "stage", "concurrency_identifier"),
    *("priority", "max_attempts"),
)


@dataclass(frozen=True, slots=True)
class NewTask:
    """The additional fields of a job for an actor."""

    actor: str
    queue_name: str = "default"
    workflow_run_id: str | None = None


class Slot(Protocol):
    """A place in a run's tree, with the fields that a job needs; or a replay of such a job, which is not a job of the
    run, but counts in its budget. The functions `slot_refusal` and `slot_take` of the pipelines room read the other
    fields from its JSON, in the transaction that writes the job.
    """

    @property
    def run_id(self) -> UUID | None: ...

    @property
    def step_id(self) -> UUID | None: ...

    @property
    def parent_id(self) -> UUID | None: ...

    def as_json(self) -> Mapping[str, Any]: ...


class SlotRefused(Exception):
    """The place is taken or can no longer be filled; `reason` is a code for the loop that chose the place, and `cost`
    is what the job would cost.
    """

    def __init__(self, reason: str, cost: int):
        super().__init__(reason)
        self.reason = reason
        self.cost = cost


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job that is ready to run: its payload is built and its cost is known."""

    tenant_id: UUID
    user_id: UUID
    kind: str
    workflow_id: int
    payload: Mapping[str, Any]
    cost: int
    provider: str = "self_hosted"
    stage: str = "production"
    concurrency_identifier: str = ""
    priority: int = 0
    # None: the settings jobs.max_attempts and jobs.lease_seconds apply.
    max_attempts: int | None = None
    lease_seconds: int | None = None
    run_limit_seconds: int = 3600
    refund_on_cancel: RefundOnCancel = "all"
    effect_id: UUID | None = None
    video_id: UUID | None = None
    # All files of the user that the job reads; the first is its primary input.
    input_file_ids: tuple[UUID, ...] = ()
    # The caller's request, if the other fields were built from it.
    request: Mapping[str, Any] | None = None
    idempotency_key: str | None = None
    client_reference: str | None = None
    metadata: Mapping[str, str] | None = None
    webhook_url: str | None = None
    batch_id: UUID | None = None
    batch_item: int | None = None
    task: NewTask | None = None
    slot: Slot | None = None
    # The API key of the request, whose budgets count the job.
    key_id: UUID | None = field(default=None, compare=False)
    # The texts that lists show. None: lists show the kind, and search does not find the job.
    description: JobDescription | None = None
    # For an effect job: `input_payload` as the user sent it.
    sent: Mapping[str, Any] | None = None
    actor: str = field(default="user", compare=False)
    # The id is read here and not where the event is written, because requests share statements, which run in the
    # context of one request.
    request_id: str | None = field(default_factory=current_request_id, compare=False)

    @property
    def counted_as(self) -> CountedAs:
        run_id = self.slot.run_id if self.slot else None
        return counted_as(run_id, self.batch_id, self.task.actor if self.task else None, self.kind)

    @property
    def compared(self) -> Mapping[str, Any]:
        """The request, as it is compared with another one of the same key: what the caller decided, not `actor`."""
        return {name: getattr(self, name) for name in COMPARED} if self.request is None else self.request


@dataclass(frozen=True, slots=True)
class AcceptedJob:
    """A new job that was written to its pool and has no dispatch yet."""

    new: NewJob
    job_id: UUID
    max_attempts: int
    lease_seconds: int
    accepted_at: datetime
    deadline_at: datetime

    @property
    def charge_cycle(self) -> int:
        return FIRST_CYCLE

    @property
    def entry(self) -> QueueEntry:
        """The fields that the queue needs."""
        return QueueEntry(**copied(_OF_ENTRY, self), **copied(_OF_ENTRY_IN_NEW, self.new))

    def view(self, status: JobStatus) -> Job:
        new, slot = self.new, self.new.slot
        described = new.description
        return Job(
            **copied(_SHOWN_OF_NEW, new),
            title=described.title[:MAX_TITLE_LENGTH] if described else None,
            prompt=described.prompt if described else None,
            input_payload=None if new.sent is None else dict(new.sent),
            id=self.job_id,
            status=status,
            charge_cycle=FIRST_CYCLE,
            run_id=slot.run_id if slot else None,
            step_id=slot.step_id if slot else None,
            parent_candidate_id=slot.parent_id if slot else None,
            created_at=self.accepted_at,
            submitted_at=self.accepted_at,
            deadline_at=self.deadline_at,
        )


# The fields of an entry that an accepted job has itself, and those that its `NewJob` has.
_OF_ENTRY = tuple(name for name in QueueEntry._fields if hasattr(AcceptedJob, name))
_OF_ENTRY_IN_NEW = tuple(name for name in QueueEntry._fields if name not in _OF_ENTRY)
# The fields that a user reads as they were submitted.
_SHOWN_OF_NEW = tuple(name for name in names_of(NewJob) if name in Job.model_fields)


# Each field of a new job is a column of its table, except these, which have a form or a place of their own.
_as_json = AsJson(
    NewJob,
    without=frozenset({"input_file_ids", "request", "task", "slot", "description", "sent", "actor", "request_id"}),
)


def attempts_and_lease(new: NewJob, settings: JobSettings) -> tuple[int, int]:
    return (
        settings.max_attempts if new.max_attempts is None else new.max_attempts,
        settings.lease_seconds if new.lease_seconds is None else new.lease_seconds,
    )


def entry_of_new_job(new: NewJob, job_id: UUID, settings: JobSettings) -> dict[str, Any]:
    """The parameters of the statement `submit` for a job. `job` and `description` are rows of their tables."""
    job = _as_json(new) | {"id": str(job_id), "input_file_ids": [str(file_id) for file_id in new.input_file_ids]}
    job["max_attempts"], job["lease_seconds"] = attempts_and_lease(new, settings)
    entry: dict[str, Any] = {"job": job, "event_actor": new.actor}
    if new.idempotency_key is not None:
        job["request_hash"] = f"\\x{hash_of(new.compared).hex()}"
        job["request_fields"] = fields_of(new.compared)
    if new.task is not None:
        job |= {
            "actor": new.task.actor,
            "queue_name": new.task.queue_name,
            "workflow_run_id": new.task.workflow_run_id,
        }
    if new.request_id is not None:
        entry["request_id"] = new.request_id
    if new.description is not None:
        job["medium"] = new.description.medium
        entry["description"] = new.description.as_json()
    if new.sent is not None:
        entry.setdefault("description", {})["sent"] = new.sent
    if (slot := new.slot) is not None:
        places = {"run_id": slot.run_id, "step_id": slot.step_id, "parent_candidate_id": slot.parent_id}
        job |= {name: str(place) for name, place in places.items() if place is not None}
        entry["slot"] = slot.as_json()
    return entry
