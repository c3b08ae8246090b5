"""Accepts a job: one statement checks balance, limits, files and idempotency key, holds the tokens and writes the job.

If the statement writes nothing, a second query finds the reason. The relay then adds an accepted job to the queue.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg

from callsheet.identity.access.principal import Owner, Principal
from callsheet.identity.accounts.quotas import Quotas
from callsheet.identity.accounts.tenant_pools import TenantRouting
from callsheet.jobs.machine.journal import Journal
from callsheet.jobs.machine.relay import Relay
from callsheet.jobs.machine.rows import WholeJob
from callsheet.jobs.show.reader import described
from callsheet.jobs.show.views import job_view
from callsheet.jobs.submit.active_limits import ActiveLimits, NextEnds
from callsheet.jobs.submit.new_jobs import AcceptedJob, NewJob, SlotRefused, attempts_and_lease, entry_of_new_job
from callsheet.media.free_space import RequireSpace
from callsheet.media.usage import StorageUsage
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.sql import Connection, names_of, statements
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.plumbing.http.request_fields import differing, fields_of, hash_of, id_in
from callsheet.settings import JobSettings
from callsheet.toolbox.batching import Batcher
from callsheet.toolbox.ids import uuid7
from callsheet.toolbox.logs import get_logger
from callsheet.wire.base import KeyedRequest
from callsheet.wire.errors import (
    BudgetReached,
    FieldProblem,
    IdempotencyKeyReused,
    InsufficientStorage,
    InsufficientTokens,
    InUse,
    InvalidRequest,
    NotFound,
    RateLimited,
    RatePolicy,
    Refusal,
    Unavailable,
)
from callsheet.wire.jobs import Job, JobRequest, JobStatus
from callsheet.wire.operate.quotas import QuotaLimits

log = get_logger(__name__)
SQL = statements("callsheet.jobs.submit")
MACHINE_SQL = statements("callsheet.jobs.machine")

NO_VIDEO = "You have no such video."
# The fields that a client chooses for its job, whatever the job does.
CHOSEN = tuple(name for name in names_of(NewJob) if name in JobRequest.model_fields)
UNKNOWN_WEBHOOK = (
    "No webhook endpoint of yours has the scope `job` and a URL that this one starts with. Create one, for example "
    'with POST /api/webhook-endpoints and {"url": "https://shop.example.com", "scope": "job"}.'
)
STORAGE_QUOTAS = (
    *("user_storage_bytes", "user_storage_files", "tenant_storage_bytes", "tenant_storage_files"),
    "user_database_bytes",
)


class SubmitRow(NamedTuple):
    """The outcome of the statement `submit` for one job: the times of a written job, or the reason of a refusal."""

    tenant_id: UUID
    job_id: UUID
    accepted_at: datetime | None
    deadline_at: datetime | None
    balance: int
    paid_by_tenant: bool
    active: int
    has_files: bool
    has_video: bool
    has_room: bool
    has_webhook: bool
    # Time until the user may submit a job again; None: now.
    wait_seconds: int | None
    slot_refusal: str | None
    # The budget that has no room; None: all have.
    budget_refusal: Mapping[str, Any] | None


class Standing(NamedTuple):
    """What `submit` would find for a job now."""

    balance: int
    paid_by_tenant: bool
    active: int
    has_files: bool
    has_video: bool
    has_webhook: bool
    has_room: bool
    wait_seconds: int | None
    budget_refusal: Mapping[str, Any] | None


# A new job and its id.
NumberedJob = tuple[NewJob, UUID]


@dataclass(frozen=True, slots=True)
class SubmittedJob:
    job: Job
    replayed: bool


class Submission:
    def __init__(
        self,
        routing: TenantRouting,
        relay: Relay,
        journal: Journal,
        settings: JobSettings,
        limits: ActiveLimits,
        next_ends: NextEnds,
        usage: StorageUsage,
        require_space: RequireSpace,
    ):
        self._require_space = require_space
        self._limits = limits
        self._next_ends = next_ends
        self.usage = usage
        self._routing = routing
        self._relay = relay
        self._journal = journal
        self._settings = settings
        self._batchers: dict[str, Batcher[NumberedJob, SubmitRow]] = {}

    @property
    def quotas(self) -> Quotas:
        return self.usage.quotas

    async def submit(self, new: NewJob) -> SubmittedJob:
        """Submits a job. After this returns, the job ends in exactly one final status, even if processes crash."""
        accepted = await self.accept(new)
        if isinstance(accepted, SubmittedJob):
            return accepted
        status = await self._relay.dispatch_now(accepted.entry)
        return SubmittedJob(accepted.view(status), replayed=False)

    async def accept(self, new: NewJob) -> AcceptedJob | SubmittedJob:
        """A new job that has no dispatch yet; or the earlier job with the same idempotency key.

        The key is looked up only if the job was not written: the unique index of keys refuses a second job.
        """
        pool = await self._routing.pool_of_tenant(new.tenant_id)
        job_id = uuid7()
        try:
            self._require_space()
        except InsufficientStorage:
            earlier = None if new.idempotency_key is None else await self._earlier(pool, new)
            if earlier is None:
                raise
            return earlier
        row = await self._insert(pool, (new, job_id))
        if row.accepted_at is None or row.deadline_at is None:
            return await self._refused(pool, new, row)
        self._journal.created(new.tenant_id, new.user_id, job_id, new.kind, new.cost)
        await hit(Failpoint.SUBMIT_BEFORE_RELAY)
        return AcceptedJob(new, job_id, *attempts_and_lease(new, self._settings), row.accepted_at, row.deadline_at)

    async def once(
        self,
        owner: Owner,
        body: KeyedRequest,
        prepare: Callable[[], Awaitable[NewJob]],
        *,
        also: Mapping[str, Any] | None = None,
        submit: Callable[[NewJob], Awaitable[SubmittedJob]] | None = None,
    ) -> SubmittedJob:
        """Submits the job that `prepare` builds, unless an earlier request with the same idempotency key did.

        Two requests with the same key must have the same body and the same `also`, which is what the request says
        outside of its body. They may build different jobs: an effect may have changed in between. `submit`: how the job
        is submitted, if not by this object.
        """
        request = body.model_dump(mode="json", exclude={"idempotency_key"}) | dict(also or {})
        key = body.idempotency_key
        if key is not None:
            pool = await self._routing.pool_of_tenant(owner.tenant_id)
            earlier = await self._find_earlier(pool, owner.tenant_id, owner.user_id, key, request)
            if earlier is not None:
                return earlier
        new = replace(await prepare(), request=request, **chosen_in(owner, body))
        return await (submit or self.submit)(new)

    def limits_of(self, new: NewJob) -> tuple[int, int | None]:
        """How many jobs like this one the user may have at once, and submit in a minute."""
        return self._limits.of(new.counted_as), self._settings.submits_per_minute

    async def standing(self, pool: Database, new: NewJob) -> Standing:
        """What `submit` would find for this job now. Nothing is written."""
        quotas = await self.quotas.of(new.tenant_id)
        # The payload decides nothing here, and it may be large.
        entry = self._as_json(replace(new, payload={}, description=None, sent=None), uuid7(), quotas)
        async with pool.connection() as connection:
            found = await SQL["quote"].row(connection, Standing, entries=[entry])
        assert found is not None
        return found

    async def refusals(self, pool: Database, new: NewJob, found: SubmitRow | Standing) -> AsyncGenerator[Refusal, None]:
        """Why this job is not accepted: `submit` raises the first reason, and a quote lists all."""
        try:
            self._require_space()
        except InsufficientStorage as refusal:
            yield refusal
        if not found.has_files:
            reason = "A file of this job was deleted while the job was submitted. Send another file."
            yield InvalidRequest.field("input_file_id", reason)
        if not found.has_video:
            yield await self._video_refusal(pool, new)
        if not found.has_webhook:
            yield InvalidRequest.field("webhook_url", UNKNOWN_WEBHOOK)
        if found.balance < new.cost:
            yield InsufficientTokens(new.cost, found.balance, paid_by_tenant=found.paid_by_tenant)
        elif found.budget_refusal is not None:
            yield await self._of_budget(pool, new, found, found.budget_refusal)
        if not found.has_room:
            yield await self.usage.refusal(pool, new.tenant_id, new.user_id)
        if found.wait_seconds is not None:
            most = self._settings.submits_per_minute
            assert most is not None, "the statement names a time to wait only if there is a limit"
            yield RateLimited(max(1, found.wait_seconds), RatePolicy("submits", most, 60))
        if found.active >= self._limits.of(new.counted_as):
            # Only a client waits for the time: the loop of a run looks again by itself.
            of_run = new.slot is not None and new.slot.run_id is not None
            names = (new.tenant_id, new.user_id, new.counted_as)
            seconds = None if of_run else await self._next_ends.seconds(pool, *names)
            yield self._limits.refusal(new.counted_as, found.active, seconds)

    async def _of_budget(
        self, pool: Database, new: NewJob, found: SubmitRow | Standing, budget: Mapping[str, Any]
    ) -> BudgetReached:
        if isinstance(found, SubmitRow):
            await note_refusal(pool, new.tenant_id, budget)
        return BudgetReached.of(new.cost, budget)

    async def _insert(self, pool: Database, numbered: NumberedJob) -> SubmitRow:
        batcher = self._batchers.get(pool.name)
        if batcher is None:
            batcher = self._batchers[pool.name] = Batcher(self._inserting(pool), isolate=(asyncpg.PostgresError,))
        return await batcher(numbered)

    def _inserting(self, pool: Database) -> Callable[[Sequence[NumberedJob]], Awaitable[Sequence[SubmitRow]]]:
        async def run(batch: Sequence[NumberedJob]) -> list[SubmitRow]:
            rows: dict[tuple[UUID, UUID], SubmitRow] = {}
            quotas = await self.quotas.of_each(new.tenant_id for new, _ in batch)
            # The statement takes one job per user, so that concurrent jobs of a user are counted one after the other.
            # All jobs share one commit. Otherwise, a batch that fails half-way would be retried although half of it was
            # written.
            waves = list(_one_per_user(batch))
            async with pool.transaction() if len(waves) > 1 else pool.connection() as connection:
                owners = [(new.tenant_id, new.user_id) for new, _ in batch]
                if len(waves[0]) < len(set(owners)):
                    await _lock(connection, owners)
                for together in waves:
                    found = await SQL["submit"].rows(
                        connection,
                        SubmitRow,
                        entries=[self._as_json(new, job_id, quotas[new.tenant_id]) for new, job_id in together],
                        to_status=JobStatus.PENDING.value,
                        lifetime_seconds=self._settings.lifetime_seconds,
                    )
                    rows.update({(row.tenant_id, row.job_id): row for row in found})
            return [rows[new.tenant_id, job_id] for new, job_id in batch]

        return run

    def _as_json(self, new: NewJob, job_id: UUID, quotas: QuotaLimits) -> dict[str, Any]:
        counted = new.counted_as
        return entry_of_new_job(new, job_id, self._settings) | {
            "counted_as": counted.value,
            "active_limit": self._limits.of(counted),
            "submits_per_minute": self._settings.submits_per_minute,
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

    async def _refused(self, pool: Database, new: NewJob, row: SubmitRow) -> SubmittedJob:
        if new.idempotency_key is not None:
            # There may be a job with the same idempotency key. A concurrent request with that key holds the lock of the
            # wallet, so it has committed by now.
            earlier = await self._earlier(pool, new)
            if earlier is not None:
                return earlier
        if row.slot_refusal is not None:
            raise SlotRefused(row.slot_refusal, new.cost)
        async with aclosing(self.refusals(pool, new, row)) as reasons:
            async for reason in reasons:
                raise reason
        raise Unavailable("Another request with this idempotency key has not ended yet. Send the request again.")

    async def _earlier(self, pool: Database, new: NewJob) -> SubmittedJob | None:
        assert new.idempotency_key is not None
        return await self._find_earlier(pool, new.tenant_id, new.user_id, new.idempotency_key, new.compared)

    async def _find_earlier(
        self, pool: Database, tenant_id: UUID, user_id: UUID, idempotency_key: str, request: Mapping[str, Any]
    ) -> SubmittedJob | None:
        async with pool.connection() as connection:
            row = await MACHINE_SQL["find_by_idempotency_key"].row(
                connection, WholeJob, tenant_id=tenant_id, user_id=user_id, idempotency_key=idempotency_key
            )
            job = None if row is None else await described(connection, tenant_id, user_id, job_view(row))
        if row is None or job is None:
            return None
        if row.request_hash != hash_of(request):
            await self._require_same(pool, row, request)
        return SubmittedJob(job, replayed=True)

    async def _require_same(self, pool: Database, earlier: WholeJob, request: Mapping[str, Any]) -> None:
        """Refuses a request that differs from the earlier one in more than the ids of files with equal bytes: a client
        that sends its request again may upload its file again first.
        """
        job, before, now = earlier.row, earlier.request_fields or {}, fields_of(request)
        fields = differing(before, now)
        ids = {name: (id_in(before.get(name)), id_in(now.get(name))) for name in fields}
        wanted = [each for pair in ids.values() if None not in pair for each in pair]
        found: dict[UUID, str] = {}
        if wanted:
            async with pool.connection() as connection:
                rows = await SQL["contents"].rows(connection, tenant_id=job.tenant_id, user_id=job.user_id, ids=wanted)
            found = {row["id"]: row["sha256"] for row in rows if row["sha256"] is not None}
        others = [
            name for name, (one, two) in ids.items() if one not in found or two not in found or found[one] != found[two]
        ]
        if others or not fields:
            raise IdempotencyKeyReused.by("job", job.id, others)


def chosen_in(owner: Owner, body: KeyedRequest) -> dict[str, Any]:
    """The fields of a new job that its client chose, whatever the job does, and the key that the client has."""
    key_id = owner.key_id if isinstance(owner, Principal) else None
    return {"key_id": key_id, **{name: getattr(body, name) for name in CHOSEN if hasattr(body, name)}}


async def note_refusal(pool: Database, tenant_id: UUID, budget: Mapping[str, Any]) -> None:
    """Notes that a budget has refused a job, after the transaction that found it."""
    async with pool.connection() as connection:
        if await SQL["budget_refused"].value(connection, tenant_id=tenant_id, budget_id=UUID(budget["budget_id"])):
            log.warning("budget.reached", tenant_id=str(tenant_id), budget_id=budget["budget_id"])


async def _lock(connection: Connection, owners: Collection[tuple[UUID, UUID]]) -> None:
    """Locks the wallets of all users, before a statement locks some of them and, after these, the budgets."""
    tenant_ids, user_ids = [tenant_id for tenant_id, _ in owners], [user_id for _, user_id in owners]
    await SQL["lock_owners"].run(connection, tenant_ids=tenant_ids, user_ids=user_ids)


def _one_per_user(batch: Sequence[NumberedJob]) -> Iterator[list[NumberedJob]]:
    left = list(batch)
    while left:
        first = {(new.tenant_id, new.user_id): (new, job_id) for new, job_id in reversed(left)}
        # The jobs of all runs of a tenant have a common limit, so they are submitted one after the other, too.
        of_run = [numbered for numbered in first.values() if numbered[0].slot is not None]
        together = [numbered for numbered in first.values() if numbered not in of_run[1:]]
        yield together
        taken = {(new.tenant_id, job_id) for new, job_id in together}
        left = [(new, job_id) for new, job_id in left if (new.tenant_id, job_id) not in taken]
