"""Accepting a job: shape → idempotency → business rules → cap → one commit → relay."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

import asyncpg

from callsheet.identity.quotas import Quotas
from callsheet.jobs.active_limits import ActiveLimits, CountedAs, counted_as
from callsheet.jobs.descriptions import Description
from callsheet.jobs.journal import Journal
from callsheet.jobs.mover import Mover
from callsheet.jobs.moves import SQL
from callsheet.jobs.relay import Relay
from callsheet.jobs.views import job_view
from callsheet.media.usage import StorageUsage
from callsheet.plumbing.database import Database
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.settings import JobSettings
from callsheet.toolbox.batching import Batcher
from callsheet.toolbox.ids import uuid7
from callsheet.wire.catalog import RefundOnCancel
from callsheet.wire.errors import (
    FieldProblem,
    IdempotencyKeyReused,
    InsufficientTokens,
    InUse,
    InvalidRequest,
    NotFound,
    Refusal,
)
from callsheet.wire.jobs import Job, JobStatus
from callsheet.wire.quotas import QuotaLimits

NO_VIDEO = "You have no such video."
STORAGE_QUOTAS = ("user_storage_bytes", "user_storage_files", "tenant_storage_bytes", "tenant_storage_files")


@dataclass(frozen=True, slots=True)
class NewTask:
    """The additional fields of a job for an actor."""

    actor: str
    queue_name: str = "default"
    workflow_run_id: str | None = None


class Slot(Protocol):
    """A place in a run's tree, with the fields that a job needs. The functions `slot_refusal` and `slot_take` of the
    pipelines room read the rest from its JSON, in the transaction that writes the job."""

    @property
    def run_id(self) -> UUID: ...

    @property
    def step_id(self) -> UUID: ...

    @property
    def parent_id(self) -> UUID | None: ...

    def as_json(self) -> Mapping[str, Any]: ...


class SlotRefused(Exception):
    """The place is taken or can no longer be filled; `reason` is a code for the loop that chose the place."""

    def __init__(self, reason: str):
        super().__init__(reason)
        self.reason = reason


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
    task: NewTask | None = None
    slot: Slot | None = None
    # The texts that lists show. None: lists show the kind, and search does not find the job.
    description: Description | None = None
    # For an effect job: `input_payload` as the user sent it.
    sent: Mapping[str, Any] | None = None
    actor: str = field(default="user", compare=False)

    @property
    def counted_as(self) -> CountedAs:
        run_id = self.slot.run_id if self.slot else None
        return counted_as({"run_id": run_id, "actor": self.task.actor if self.task else None, "kind": self.kind})

    def request_hash(self) -> bytes:
        """Equal hashes mean the same request. The hash covers what the caller decided, not `actor`."""
        if self.request is not None:
            return hash_of(self.request)
        parts = [
            self.kind,
            self.workflow_id,
            self.payload,
            self.cost,
            self.provider,
            self.stage,
            self.concurrency_identifier,
            self.priority,
            # The default before the setting existed: a key may have been used at that time.
            3 if self.max_attempts is None else self.max_attempts,
        ]
        return hash_of(parts)


def hash_of(request: object) -> bytes:
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode("utf-8", "surrogatepass")).digest()


Numbered = tuple[NewJob, UUID]


@dataclass(frozen=True, slots=True)
class Submitted:
    job: Job
    replayed: bool


class Submission:
    def __init__(
        self,
        mover: Mover,
        relay: Relay,
        journal: Journal,
        settings: JobSettings,
        limits: ActiveLimits,
        usage: StorageUsage,
    ):
        self._limits = limits
        self._usage = usage
        self._mover = mover
        self._relay = relay
        self._journal = journal
        self._settings = settings
        self._batchers: dict[str, Batcher[Numbered, asyncpg.Record]] = {}

    @property
    def quotas(self) -> Quotas:
        return self._usage.quotas

    async def submit(self, new: NewJob) -> Submitted:
        """After this returns, the job reaches exactly one end, even if processes crash."""
        row = await self.accept(new)
        if isinstance(row, Submitted):
            return row
        status = await self._relay.dispatch_now(row)
        return Submitted(job_view({**row, "status": status}), replayed=False)

    async def accept(self, new: NewJob) -> asyncpg.Record | Submitted:
        """The row of a new job that has no dispatch yet; or the earlier job with the same idempotency key."""
        pool = await self._mover.pool_of(new.tenant_id)
        if new.idempotency_key is not None:
            earlier = await self._earlier(pool, new)
            if earlier is not None:
                return earlier
        job_id = uuid7()
        row = await self._insert(pool, (new, job_id))
        if row["id"] is None:
            return await self._refused(pool, new, row)
        self._journal.created(new.tenant_id, new.user_id, job_id, new.kind, new.cost)
        await hit(Failpoint.SUBMIT_BEFORE_RELAY)
        return row

    async def earlier(
        self, tenant_id: UUID, user_id: UUID, idempotency_key: str, request: Mapping[str, Any]
    ) -> Submitted | None:
        """The earlier job with this key. Called before a new job is built."""
        pool = await self._mover.pool_of(tenant_id)
        return await self._find_earlier(pool, tenant_id, user_id, idempotency_key, hash_of(request))

    async def _insert(self, pool: Database, numbered: Numbered) -> asyncpg.Record:
        batcher = self._batchers.get(pool.name)
        if batcher is None:
            batcher = self._batchers[pool.name] = Batcher(self._inserting(pool), isolate=(asyncpg.PostgresError,))
        return await batcher(numbered)

    def _inserting(self, pool: Database) -> Callable[[Sequence[Numbered]], Awaitable[Sequence[asyncpg.Record]]]:
        async def run(batch: Sequence[Numbered]) -> list[asyncpg.Record]:
            rows: dict[tuple[UUID, UUID], asyncpg.Record] = {}
            quotas = await self.quotas.of_each(new.tenant_id for new, _ in batch)
            # The statement takes one job per user, so that concurrent jobs of a user are counted one after the other.
            # All share one commit; otherwise a batch that fails half-way would be retried with half of it written.
            waves = list(_one_per_user(batch))
            async with pool.transaction() if len(waves) > 1 else pool.connection() as connection:
                for together in waves:
                    found = await SQL["submit"].rows(
                        connection,
                        entries=[self._as_json(new, job_id, quotas[new.tenant_id]) for new, job_id in together],
                        to_status=JobStatus.PENDING.value,
                        lifetime_seconds=self._settings.lifetime_seconds,
                    )
                    rows.update({(row["tenant_id"], row["job_id"]): row for row in found})
            return [rows[new.tenant_id, job_id] for new, job_id in batch]

        return run

    def _as_json(self, new: NewJob, job_id: UUID, quotas: QuotaLimits) -> dict[str, Any]:
        max_attempts = self._settings.max_attempts if new.max_attempts is None else new.max_attempts
        lease_seconds = self._settings.lease_seconds if new.lease_seconds is None else new.lease_seconds
        counted = new.counted_as
        return _as_json(new, job_id) | {
            "max_attempts": max_attempts,
            "lease_seconds": lease_seconds,
            "counted_as": counted.value,
            "active_limit": self._limits.of(counted),
            **{name: getattr(quotas, name) for name in STORAGE_QUOTAS},
        }

    async def _video_refusal(self, pool: Database, new: NewJob) -> Refusal:
        async with pool.connection() as connection:
            job_id = await SQL["job_of_video"].value(
                connection, tenant_id=new.tenant_id, user_id=new.user_id, video_id=new.video_id
            )
        if job_id is None:
            return NotFound(NO_VIDEO, errors=[FieldProblem("video_id", NO_VIDEO)])
        reason = f"Job {job_id} is already processing this video. Wait until the job ends, or cancel it."
        return InUse(reason, errors=[FieldProblem("video_id", reason)])

    async def _refused(self, pool: Database, new: NewJob, row: asyncpg.Record) -> Submitted:
        if new.idempotency_key is not None:
            # Another request with the same key was first: the wallet's lock made this one wait for its commit.
            earlier = await self._earlier(pool, new)
            if earlier is not None:
                return earlier
        if row["slot_refusal"] is not None:
            raise SlotRefused(row["slot_refusal"])
        if not row["has_files"]:
            raise InvalidRequest.field(
                "input_file_id", "A file of this job was deleted while the job was submitted. Send another file."
            )
        if not row["has_video"]:
            raise await self._video_refusal(pool, new)
        if row["balance"] < new.cost:
            raise InsufficientTokens(new.cost, row["balance"])
        if not row["has_room"]:
            raise await self._usage.refusal(pool, new.tenant_id, new.user_id)
        raise self._limits.refusal(new.counted_as, row["active"])

    async def _earlier(self, pool: Database, new: NewJob) -> Submitted | None:
        assert new.idempotency_key is not None
        return await self._find_earlier(pool, new.tenant_id, new.user_id, new.idempotency_key, new.request_hash())

    async def _find_earlier(
        self, pool: Database, tenant_id: UUID, user_id: UUID, idempotency_key: str, request_hash: bytes
    ) -> Submitted | None:
        async with pool.connection() as connection:
            row = await SQL["find_by_idempotency_key"].row(
                connection, tenant_id=tenant_id, user_id=user_id, idempotency_key=idempotency_key
            )
        if row is None:
            return None
        if row["request_hash"] != request_hash:
            raise IdempotencyKeyReused()
        return Submitted(job_view(row), replayed=True)


def _one_per_user(batch: Sequence[Numbered]) -> Iterator[list[Numbered]]:
    left = list(batch)
    while left:
        first = {(new.tenant_id, new.user_id): (new, job_id) for new, job_id in reversed(left)}
        # Jobs of runs are counted in total, so they are submitted one after the other too.
        of_run = [numbered for numbered in first.values() if numbered[0].slot is not None]
        together = [numbered for numbered in first.values() if numbered not in of_run[1:]]
        yield together
        taken = {(new.tenant_id, job_id) for new, job_id in together}
        left = [(new, job_id) for new, job_id in left if (new.tenant_id, job_id) not in taken]


def _as_json(new: NewJob, job_id: UUID) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "tenant_id": str(new.tenant_id),
        "user_id": str(new.user_id),
        "job_id": str(job_id),
        "kind": new.kind,
        "cost": new.cost,
        "workflow_id": new.workflow_id,
        "stage": new.stage,
        "provider": new.provider,
        "concurrency_identifier": new.concurrency_identifier,
        "priority": new.priority,
        "run_limit_seconds": new.run_limit_seconds,
        "refund_on_cancel": new.refund_on_cancel,
        "payload": new.payload,
        "input_file_ids": [str(file_id) for file_id in new.input_file_ids],
        "actor": new.actor,
    }
    # Missing values are left out, because each would cost time to write and to parse.
    if new.effect_id is not None:
        entry["effect_id"] = str(new.effect_id)
    if new.video_id is not None:
        entry["video_id"] = str(new.video_id)
    if new.idempotency_key is not None:
        entry |= {"idempotency_key": new.idempotency_key, "request_hash": new.request_hash().hex()}
    if new.task is not None:
        entry |= {
            "task_actor": new.task.actor,
            "queue_name": new.task.queue_name,
            "workflow_run_id": new.task.workflow_run_id,
        }
    if new.sent is not None:
        entry["sent"] = new.sent
    if new.description is not None:
        entry |= new.description.as_json()
    if new.slot is not None:
        entry |= {
            "run_id": str(new.slot.run_id),
            "step_id": str(new.slot.step_id),
            "parent_id": str(new.slot.parent_id) if new.slot.parent_id else None,
            "slot": new.slot.as_json(),
        }
    return entry
