"""The core without HTTP: a room of jobs over real databases, shortcuts through a job's life, and its invariants.

core = open_core(databases)                 # or open_core(databases, active_per_user=5)
await core.prepare()                        # a workflow, `core.workflow`
ann = await core.member("pool_1", tokens=100)
job = await core.submit(ann, cost=7)
started = await core.lease("worker-1")      # lease and start
await core.complete(started)
await core.check()                          # G1-G5 and G8 hold over everything there is
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch
from uuid import UUID

from callsheet.dispatch.facts import Criteria
from callsheet.dispatch.queue import Queue
from callsheet.jobs.lease.outcomes import Failure, LeaseReport, ReportOutcome, StartedLease
from callsheet.jobs.machine.transition_requests import JobOutputFile
from callsheet.jobs.room import JobsRoom
from callsheet.jobs.submit.new_jobs import NewJob
from callsheet.jobs.submit.submission import SubmittedJob
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.notify import Notify
from callsheet.settings import JobSettings
from callsheet.toolbox.ids import uuid7
from callsheet.wallet.ledger import credit
from callsheet.wire.jobs import Job
from tests.support.jobs.invariants import drained, violations
from tests.support.rooms import jobs_room

Row = Mapping[str, Any]
_numbers = itertools.count(1)
WORKER = "worker-1"
AFTER_EVERY_DEADLINE = timedelta(days=400)


@dataclass(frozen=True, slots=True)
class Member:
    """A user of a tenant of a pool."""

    tenant_id: UUID
    user_id: UUID
    pool: Database

    @property
    def tenant(self) -> Member:
        """The owner of the wallet of the tenant."""
        return Member(self.tenant_id, self.tenant_id, self.pool)


@dataclass(slots=True)
class Core:
    databases: Databases
    room: JobsRoom
    # What would have been sent by NOTIFY: (channel, payload).
    notifications: list[tuple[str, str]]
    workflow: int = 0

    @property
    def queue(self) -> Queue:
        return self.room.dispatch.queue

    async def prepare(self) -> Core:
        self.workflow = await self.add_workflow()
        return self

    async def add_workflow(self, slug: str | None = None, *, active: bool = True) -> int:
        async with self.databases.central.connection() as connection:
            number: int = await connection.fetchval(
                "INSERT INTO workflows (slug, name, is_active) VALUES ($1, 'A workflow', $2) RETURNING id",
                slug or f"workflow-{next(_numbers)}",
                active,
            )
        return number

    async def member(self, pool: str = "pool_1", tokens: int = 1000, *, tenant: Member | None = None) -> Member:
        """A new user of a new tenant, or of the tenant of another member, with tokens."""
        database = tenant.pool if tenant else await self.databases.pool(pool)
        tenant_id = tenant.tenant_id if tenant else await self._add_tenant(database)
        member = Member(tenant_id, uuid7(), database)
        if tokens:
            await self.credit(member, tokens)
        return member

    async def _add_tenant(self, pool: Database) -> UUID:
        tenant_id = uuid7()
        async with pool.connection() as connection:
            await connection.execute("INSERT INTO pool_tenants (tenant_id) VALUES ($1)", tenant_id)
        async with self.databases.central.connection() as connection:
            await connection.execute(
                "INSERT INTO tenants (id, slug, name, db_pool) VALUES ($1, $2, 'A tenant', $3)",
                tenant_id,
                f"core-{next(_numbers)}",
                pool.name,
            )
        return tenant_id

    async def credit(self, member: Member, amount: int, payment: str | None = None) -> int:
        payment = payment or f"payment-{next(_numbers)}"
        balance, _ = await credit(member.pool, member.tenant_id, member.user_id, amount, payment)
        return balance

    def new_job(self, member: Member, **changes: Any) -> NewJob:
        values = {"kind": "effect", "workflow_id": self.workflow, "payload": {"prompt": "a cat"}, "cost": 10}
        return NewJob(tenant_id=member.tenant_id, user_id=member.user_id, **{**values, **changes})

    async def submit(self, member: Member, **changes: Any) -> Job:
        return (await self.submitted(member, **changes)).job

    async def submitted(self, member: Member, **changes: Any) -> SubmittedJob:
        return await self.room.submission.submit(self.new_job(member, **changes))

    async def lease(self, worker: str = WORKER, criteria: Criteria | None = None) -> StartedLease | None:
        return await self.room.starter.lease_and_start(criteria or self.criteria(), worker)

    def criteria(self, *workflows: int, **changes: Any) -> Criteria:
        return Criteria(workflows or (self.workflow,), **changes)

    async def start(self, worker: str = WORKER, criteria: Criteria | None = None) -> StartedLease:
        """A lease, which must exist."""
        started = await self.lease(worker, criteria)
        assert started is not None
        return started

    async def complete(self, started: StartedLease, result: Mapping[str, Any] | None = None) -> ReportOutcome:
        made: dict[str, Any] = {"metadata": {"frames": 3}}
        if started.lease.kind == "scrape":
            made["result"] = {"product": {"title": "Lamp", "url": "https://shop.example/lamp"}}
        return await self.room.leases.complete(report(started), result or made, outputs=[output_of(started)])

    async def video(self, member: Member) -> tuple[UUID, UUID]:
        """An uploaded file and its video: (video_id, file_id)."""
        file_id, video_id = uuid7(), uuid7()
        async with member.pool.transaction() as connection:
            await connection.execute(
                """INSERT INTO files
                   (tenant_id, id, user_id, purpose, status, disk, path, name, mime_type, size, ready_at)
                   VALUES ($1, $2, $3, 'upload', 'ready', 'local', $4, 'clip.mp4', 'video/mp4', 3, now())""",
                member.tenant_id,
                file_id,
                member.user_id,
                f"tenants/{member.tenant_id}/uploads/{file_id}/clip.mp4",
            )
            await connection.execute(
                "INSERT INTO videos (tenant_id, id, user_id, original_file_id) VALUES ($1, $2, $3, $4)",
                member.tenant_id,
                video_id,
                member.user_id,
                file_id,
            )
        return video_id, file_id

    async def submit_video(self, member: Member, **changes: Any) -> tuple[Job, UUID]:
        """A job on a video of its own: (job, video_id)."""
        video_id, file_id = await self.video(member)
        job = await self.submit(member, video_id=video_id, input_file_ids=(file_id,), **changes)
        return job, video_id

    async def video_row(self, member: Member, video_id: UUID) -> Row:
        query = "SELECT * FROM videos WHERE tenant_id = $1 AND id = $2"
        return (await self.rows(member.pool, query, member.tenant_id, video_id))[0]

    async def fail(self, started: StartedLease, *, retryable: bool = False) -> ReportOutcome:
        failure = Failure("engine_error", "The engine stopped.", {"node": 4}, "Traceback …", retryable)
        return await self.room.leases.fail(report(started), failure)

    async def job(self, member: Member, job_id: UUID) -> Row:
        rows = await self.rows(
            member.pool, "SELECT * FROM ai_jobs WHERE tenant_id = $1 AND id = $2", member.tenant_id, job_id
        )
        return rows[0]

    async def status(self, member: Member, job_id: UUID) -> str:
        return str((await self.job(member, job_id))["status"])

    async def balance(self, member: Member) -> int:
        """Tokens in the wallet of a member, or of a tenant (`member.tenant`)."""
        query = "SELECT balance FROM token_wallets WHERE tenant_id = $1 AND owner_id = $2"
        rows = await self.rows(member.pool, query, member.tenant_id, member.user_id)
        return int(rows[0]["balance"]) if rows else 0

    async def ledger(self, member: Member, job_id: UUID) -> list[tuple[int, str, int]]:
        """The job's lines: (charge cycle, type, amount)."""
        query = """SELECT charge_cycle, type, amount FROM token_transactions
                   WHERE tenant_id = $1 AND job_id = $2 ORDER BY id"""
        rows = await self.rows(member.pool, query, member.tenant_id, job_id)
        return [(row["charge_cycle"], row["type"], row["amount"]) for row in rows]

    async def events(self, member: Member, job_id: UUID) -> list[Row]:
        query = "SELECT * FROM job_events WHERE tenant_id = $1 AND job_id = $2 ORDER BY seq"
        return await self.rows(member.pool, query, member.tenant_id, job_id)

    async def steps(self, member: Member, job_id: UUID) -> list[str]:
        """The job's history in short: `pending>queued`; a refusal is `completed!canceled`."""
        marks = {"job.created": ">", "job.transition": ">", "job.transition_denied": "!"}
        return [
            f"{event['from_status'] or ''}{marks[event['event']]}{event['to_status']}"
            for event in await self.events(member, job_id)
        ]

    async def dispatch(self, job_id: UUID, table: str = "ai_job_dispatches") -> Row | None:
        """The newest queue row of a job, hot or (`dispatch_history`) finished."""
        query = f"SELECT * FROM {table} WHERE tenant_job_id = $1 ORDER BY dispatch_id DESC LIMIT 1"
        rows = await self.rows(self.databases.central, query, job_id)
        return rows[0] if rows else None

    async def outbox(self, pool: Database) -> list[Row]:
        return await self.rows(pool, "SELECT * FROM outbox ORDER BY id")

    async def rows(self, database: Database, query: str, *values: object) -> list[Row]:
        async with database.connection() as connection:
            return [dict(row) for row in await connection.fetch(query, *values)]

    async def expire_lease(self, dispatch_id: int) -> None:
        """Simulates that the time of the lease (or of the wait) is over."""
        query = """UPDATE ai_job_dispatches SET lease_expires_at = clock_timestamp() - interval '1 s'
                   WHERE dispatch_id = $1 AND status <> 'queued'"""
        await self.rows(self.databases.central, query, dispatch_id)

    async def reap(self) -> None:
        while await self.room.reaper.reap():
            pass

    async def enforce_deadlines(self, at: datetime | None = None) -> None:
        for pool in self.databases.pools:
            await self.room.deadlines.enforce(pool, at)

    async def relay(self) -> None:
        """Relays everything in the outboxes, also young rows."""
        for pool in self.databases.pools:
            while await self.room.relay.relay_pool(pool):
                pass

    async def drain(self, criteria: Criteria | None = None) -> None:
        """Simulates in fast motion what an installation does with one worker that always succeeds."""
        criteria = criteria or await self._everything()
        while True:
            await self.relay()
            for row in await self.rows(
                self.databases.central, "SELECT * FROM ai_job_dispatches WHERE status <> 'queued'"
            ):
                await self.expire_lease(row["dispatch_id"])
            await self.reap()
            await self.room.dispatch.queue.promote(datetime.now(UTC) + AFTER_EVERY_DEADLINE)
            worked = False
            while (started := await self.lease("drain", criteria)) is not None:
                await self.complete(started)
                worked = True
            left = await self.rows(self.databases.central, "SELECT 1 FROM ai_job_dispatches LIMIT 1")
            if not worked and not left:
                return
            if not worked:
                # These jobs have no attempts left, or no worker serves their lane: the deadline ends them.
                await self.enforce_deadlines(datetime.now(UTC) + AFTER_EVERY_DEADLINE)

    async def _everything(self) -> Criteria:
        lanes = await self.rows(
            self.databases.central, "SELECT DISTINCT workflow_id, stage, provider FROM dispatch_lanes"
        )
        return Criteria(
            tuple({row["workflow_id"] for row in lanes}) or (self.workflow,),
            providers=tuple({row["provider"] for row in lanes}) or ("self_hosted",),
        )

    async def check(self) -> None:
        """Checks G1-G5 and G8. No operation may be running."""
        assert await violations(self.databases) == []

    async def check_drained(self) -> None:
        await self.check()
        assert await drained(self.databases) == []


def open_core(databases: Databases, notify: Notify | None = None, **settings: Any) -> Core:
    """A room over these databases; open several for several control planes. `notify` gets the notifications."""
    notifications: list[tuple[str, str]] = []
    record = notify or (lambda *message: notifications.append(message))
    chosen = JobSettings(**{"submits_per_minute": None, **settings})
    return Core(databases, jobs_room(databases, chosen, notify=record), notifications)


def report(started: StartedLease, worker: str | None = None) -> LeaseReport:
    return LeaseReport(started.lease.dispatch_id, started.lease.lease_token, worker or started.lease.worker_id)


def output_of(started: StartedLease, name: str = "output.mp4") -> JobOutputFile:
    lease = started.lease
    path = f"tenants/{lease.tenant_id}/ai-jobs/{lease.job_id}/output-{uuid7()}.mp4"
    return JobOutputFile(uuid7(), "local", path, name, "video/mp4", 7)


# Of one context: a control plane that other tests of the process share may submit a job of its own at any time.
_given_ids: ContextVar[Iterator[UUID]] = ContextVar("given_ids")


@contextmanager
def job_ids(*ids: UUID) -> Iterator[None]:
    """The next submits use these ids, for example for the same id in two pools."""

    def next_id() -> UUID:
        given = _given_ids.get(None)
        return uuid7() if given is None else next(given)

    token = _given_ids.set(iter(ids))
    try:
        with patch("callsheet.jobs.submit.submission.uuid7", next_id):
            yield
    finally:
        _given_ids.reset(token)
