"""The state of the rows, reduced to the model: jobs, dispatches, balances and the outbox."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal
from uuid import UUID

from callsheet.dispatch.facts import Criteria
from callsheet.jobs.submit.active_limits import CountedAs, counted_as
from callsheet.plumbing.database.databases import Databases
from callsheet.wire.jobs import ACTIVE

JobKey = tuple[UUID, UUID]
DispatchKey = tuple[UUID, UUID, int]
UserKey = tuple[UUID, UUID]
OutboxKey = tuple[UUID, UUID, int, str]


@dataclass(slots=True)
class JobState:
    user_id: UUID
    status: str
    cycle: int
    lease_seq: int
    cost: int
    overdue: bool
    max_attempts: int
    route: tuple[int, str, str, int]
    # Which limit of active jobs counts it.
    counted: CountedAs
    # Which wallet the tokens of this cycle are from.
    paid_by_tenant: bool = False
    # Of the cycles before this one.
    ends: tuple[str, ...] = ()

    @property
    def active(self) -> bool:
        return self.status in ACTIVE

    def payer(self, tenant_id: UUID) -> UserKey:
        return (tenant_id, tenant_id if self.paid_by_tenant else self.user_id)


@dataclass(slots=True)
class DispatchState:
    status: Literal["queued", "delayed", "leased", "waiting"]
    route: tuple[int, str, str, int]
    max_attempts: int
    overdue: bool = False
    token: UUID | None = None
    seq: int = 0
    attempts: int = 0
    requeues: int = 0
    canceled: bool = False
    expired: bool = False
    # Given by the database; the model only orders by it.
    dispatch_id: int = field(default=0, compare=False)

    @property
    def identifier(self) -> str:
        return self.route[2]

    @property
    def held(self) -> bool:
        return self.status in ("leased", "waiting")

    def matches(self, criteria: Criteria) -> bool:
        workflow_id, provider, _, _ = self.route
        return criteria.matches(workflow_id, "production", provider)


@dataclass(slots=True)
class State:
    jobs: dict[JobKey, JobState]
    dispatches: dict[DispatchKey, DispatchState]
    balances: dict[UserKey, int]
    outbox: set[OutboxKey]
    limits: dict[str, int]
    # Tenants that pay for their users.
    paying: set[UUID] = field(default_factory=set)

    def payer(self, user: UserKey) -> UserKey:
        """The wallet that pays for the next job of a user."""
        return (user[0], user[0]) if user[0] in self.paying else user

    def active_jobs(self, user: UserKey, counted: CountedAs) -> int:
        jobs = [job for (tenant_id, _), job in self.jobs.items() if (tenant_id, job.user_id) == user]
        return sum(job.active for job in jobs if job.counted is counted)


async def read_state(databases: Databases) -> State:
    """Nothing may be under way meanwhile."""
    state = State({}, {}, {}, set(), {})
    async with databases.central.connection() as connection:
        for row in await connection.fetch(DISPATCHES):
            key = (row["tenant_id"], row["tenant_job_id"], row["charge_cycle"])
            state.dispatches[key] = DispatchState(
                status="delayed" if row["not_before"] else row["status"],
                route=_route(row),
                max_attempts=row["max_attempts"],
                overdue=row["overdue"],
                token=row["lease_token"],
                seq=row["lease_seq"],
                attempts=row["attempts"],
                requeues=row["requeues"],
                canceled=row["cancel_requested_at"] is not None,
                expired=row["expired"],
                dispatch_id=row["dispatch_id"],
            )
        state.limits = {row["identifier"]: row["max_concurrent"] for row in await connection.fetch(LIMITS)}
    for pool in databases.pools:
        async with pool.connection() as connection:
            for row in await connection.fetch(JOBS):
                state.jobs[row["tenant_id"], row["id"]] = JobState(
                    user_id=row["user_id"],
                    status=row["status"],
                    cycle=row["charge_cycle"],
                    lease_seq=row["lease_seq"],
                    cost=row["cost"],
                    overdue=row["overdue"],
                    max_attempts=row["max_attempts"],
                    route=_route(row),
                    counted=counted_as(row["run_id"], row["batch_id"], row["actor"], row["kind"]),
                    paid_by_tenant=row["paid_by_tenant"],
                    ends=tuple(row["ends"]),
                )
            for row in await connection.fetch("SELECT * FROM token_wallets"):
                state.balances[row["tenant_id"], row["owner_id"]] = row["balance"]
            for row in await connection.fetch("SELECT tenant_id FROM pool_tenants WHERE pays_for_users"):
                state.paying.add(row["tenant_id"])
            for row in await connection.fetch("SELECT * FROM outbox"):
                state.outbox.add((row["tenant_id"], row["job_id"], row["charge_cycle"], row["action"]))
    return state


DISPATCHES = """SELECT *, deadline_at <= clock_timestamp() AS overdue,
    coalesce(lease_expires_at <= clock_timestamp(), false) AS expired FROM ai_job_dispatches"""
LIMITS = "SELECT * FROM concurrency_limits"
JOBS = """SELECT *, deadline_at <= clock_timestamp() AS overdue, ARRAY (
    SELECT from_status FROM job_events e WHERE e.tenant_id = j.tenant_id AND e.job_id = j.id
        AND e.event = 'job.transition' AND e.to_status = 'pending' ORDER BY e.seq) AS ends FROM ai_jobs j"""


def _route(row: object) -> tuple[int, str, str, int]:
    return tuple(row[name] for name in ("workflow_id", "provider", "concurrency_identifier", "priority"))  # type: ignore
