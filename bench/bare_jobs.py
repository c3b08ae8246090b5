"""A paid job as its bare statements: the SQL of our rooms, sent directly on connections, one after the other."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import asyncpg
from asyncpg.prepared_stmt import PreparedStatement

from bench.installation import BenchInstallation
from callsheet.dispatch.facts import NO_OWNER
from callsheet.dispatch.lease.leasing import SQL as DISPATCH
from callsheet.jobs.machine.states import Transition
from callsheet.jobs.machine.transitions import statuses_of, steps_of
from callsheet.plumbing.database.database import HOT
from callsheet.plumbing.database.sql import Statement
from callsheet.toolbox.ids import uuid7
from tests.support.database.room_statements import statements_of_room

JOBS = statements_of_room("jobs")

CONNECTIONS = 8
# As long as the ids that the control plane gives to requests.
REQUEST_ID = "0f6a3c1d9be24c77"
Values = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Order:
    """The values that all jobs of the run share."""

    tenant_id: UUID
    workflow_id: int
    payload: Mapping[str, Any]
    result: Mapping[str, Any]
    cost: int

    def job(self, user_id: UUID) -> dict[str, Any]:
        """A job as its row."""
        return {
            "tenant_id": str(self.tenant_id),
            "id": str(uuid7()),
            "user_id": str(user_id),
            "kind": "bench",
            "cost": self.cost,
            "workflow_id": self.workflow_id,
            "stage": "production",
            "provider": "self_hosted",
            "concurrency_identifier": "",
            "priority": 0,
            "max_attempts": 3,
            "lease_seconds": 900,
            "run_limit_seconds": 3600,
            "refund_on_cancel": "all",
            "payload": self.payload,
            "input_file_ids": [],
        }


# The terms of every job, which are wide enough for all.
TERMS = {
    "event_actor": "user",
    "request_id": REQUEST_ID,
    "counted_as": "jobs",
    "active_limit": 5,
    "user_storage_bytes": 2**40,
    "user_storage_files": 2**20,
    "tenant_storage_bytes": 2**40,
    "tenant_storage_files": 2**20,
}


class Bare:
    """A statement prepared on one connection, with the arguments that never change."""

    def __init__(self, prepared: PreparedStatement[asyncpg.Record], parameters: tuple[str, ...], fixed: Values):
        self._prepared = prepared
        self._parameters = parameters
        self._fixed = fixed

    @classmethod
    async def prepare(
        cls, connection: asyncpg.Connection[asyncpg.Record], statement: Statement, **fixed: object
    ) -> Bare:
        return cls(await connection.prepare(statement.text), statement.parameters, fixed)

    async def __call__(self, **values: object) -> list[asyncpg.Record]:
        given = {**self._fixed, **values}
        return await self._prepared.fetch(*[given[name] for name in self._parameters])


@dataclass(frozen=True, slots=True)
class Pair:
    """A connection to central and one to the pool, with everything a job needs prepared on them."""

    submit: Bare
    enqueue: Bare
    queue: Bare
    lease: Bare
    start: Bare
    find: Bare
    complete: Bare
    close: Bare

    async def run(self, order: Order, users: list[UUID]) -> int:
        """Runs as many jobs as there are users, from submit to close. Returns how many were closed."""
        jobs = [order.job(user) for user in users]
        submitted = await self.submit(entries=json.dumps([{"job": job, **TERMS} for job in jobs]))
        deadline = submitted[0]["deadline_at"].isoformat()
        lane = {"lane_tenant_id": str(NO_OWNER), "lane_user_id": str(NO_OWNER)}
        placed = {**lane, "charge_cycle": 1, "deadline_at": deadline, "payload": None}
        await self.enqueue(entries=json.dumps([{**job, "job_id": job["id"], **placed} for job in jobs]))
        await self.queue(
            **_columns(submitted, actor="relay"),
            min_lease_seqs=[0] * len(submitted),
            max_lease_seqs=[0] * len(submitted),
            reasons=[None] * len(submitted),
            reported_reasons=[None] * len(submitted),
            traces=[None] * len(submitted),
        )
        leases = await self._leased(len(users))
        await self.start(**_columns(leases, actor="worker:bare"), lease_seqs=[lease["lease_seq"] for lease in leases])
        await self.find(dispatch_ids=[lease["dispatch_id"] for lease in leases])
        await self.complete(requests=json.dumps([_completion(lease, order) for lease in leases]))
        closed = await self.close(
            dispatch_ids=[lease["dispatch_id"] for lease in leases],
            tokens=[lease["lease_token"] for lease in leases],
            statuses=["completed"] * len(leases),
            provider_job_ids=[None] * len(leases),
            errors=[None] * len(leases),
        )
        return len(closed)

    async def _leased(self, jobs: int) -> list[asyncpg.Record]:
        """As many leases as jobs were submitted. Sometimes another pair holds the rows that this one sees: then it
        reads again.
        """
        leases: list[asyncpg.Record] = []
        while len(leases) < jobs:
            wanted = jobs - len(leases)
            tokens = [uuid4() for _ in range(wanted)]
            rows = await self.lease(
                workers=["bare"] * wanted,
                tokens=tokens,
                poll_ids=[None] * wanted,
                wanted=[wanted],
                spare=CONNECTIONS * jobs,
            )
            leases += [row for row in rows if row["dispatch_id"] is not None]
        return leases


def _columns(rows: list[asyncpg.Record], *, actor: str) -> dict[str, list[object]]:
    return {
        "tenant_ids": [row["tenant_id"] for row in rows],
        "job_ids": [row["job_id"] for row in rows],
        "charge_cycles": [1] * len(rows),
        "actors": [actor] * len(rows),
        "request_ids": [REQUEST_ID] * len(rows),
    }


def _completion(lease: asyncpg.Record, order: Order) -> dict[str, Any]:
    return {
        "tenant_id": str(lease["tenant_id"]),
        "job_id": str(lease["job_id"]),
        "charge_cycle": 1,
        "min_lease_seq": lease["lease_seq"],
        "max_lease_seq": lease["lease_seq"],
        "actor": "worker:bare",
        "request_id": REQUEST_ID,
        "result": order.result,
    }


class BareJobs:
    def __init__(self, pairs: list[Pair], order: Order, users: list[UUID], at_once: int):
        self._pairs = pairs
        self._order = order
        self._users = itertools.cycle(users)
        self._at_once = at_once

    def at_once(self, jobs: int) -> BareJobs:
        return BareJobs(self._pairs, self._order, list(itertools.islice(self._users, 500)), jobs)

    async def fill(self, jobs: int) -> None:
        """Does nothing: submitting is part of the measurement."""

    async def drain(self, jobs: int) -> int:
        left = iter(range(jobs))
        return sum(await asyncio.gather(*(self._work(pair, left) for pair in self._pairs)))

    async def _work(self, pair: Pair, left: Iterator[int]) -> int:
        done = 0
        while turn := list(itertools.islice(left, self._at_once)):
            done += await pair.run(self._order, [next(self._users) for _ in turn])
        return done


@asynccontextmanager
async def bare_jobs(installation: BenchInstallation, order: Order, users: list[UUID]) -> AsyncIterator[BareJobs]:
    """One job at a time; `at_once` for several per statement."""
    async with AsyncExitStack() as undo:

        async def connect(dsn: str) -> asyncpg.Connection[asyncpg.Record]:
            connection = await asyncpg.connect(dsn, server_settings=HOT)
            undo.push_async_callback(connection.close)
            return connection

        pairs = [
            await _pair(
                installation, order, await connect(installation.central.dsn), await connect(installation.pool.dsn)
            )
            for _ in range(CONNECTIONS)
        ]
        yield BareJobs(pairs, order, users, 1)


async def _pair(
    installation: BenchInstallation,
    order: Order,
    central: asyncpg.Connection[asyncpg.Record],
    pool: asyncpg.Connection[asyncpg.Record],
) -> Pair:
    lane_id = await central.fetchval(
        "SELECT lane_id FROM dispatch_lanes WHERE workflow_id = $1 AND tenant_id = $2",
        installation.workflow_id,
        NO_OWNER,
    )
    return Pair(
        submit=await Bare.prepare(pool, JOBS["submit"], to_status="pending", lifetime_seconds=86_400),
        enqueue=await Bare.prepare(central, DISPATCH["enqueue"]),
        queue=await Bare.prepare(pool, JOBS["queue_jobs"], **statuses_of(Transition.QUEUE)),
        lease=await Bare.prepare(central, DISPATCH["take"], lane_ids=[lane_id], user_queues=[0], now=None),
        start=await Bare.prepare(pool, JOBS["start_jobs"], **steps_of(Transition.START), to_status="processing"),
        find=await Bare.prepare(central, DISPATCH["find"]),
        complete=await Bare.prepare(pool, JOBS["complete_jobs"], **statuses_of(Transition.COMPLETE)),
        close=await Bare.prepare(central, DISPATCH["close"]),
    )
