"""The installation that the core is measured on: a fresh one, with users, tokens and workflows.

PostgreSQL is the embedded one as every installation has it: fsync and synchronous_commit on.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from uuid import UUID

import asyncpg

from bench.processes import fresh_home
from callsheet.dispatch.facts import Criteria, QueueEntry
from callsheet.jobs.room import JobsRoom
from callsheet.plumbing.database.database import Database, create_database
from callsheet.plumbing.database.databases import Databases, open_databases, with_database
from callsheet.plumbing.database.notify import Listener, Notifier
from callsheet.plumbing.embedded.layout import APPLICATION
from callsheet.settings import load_settings
from callsheet.toolbox.ids import uuid7
from callsheet.toolbox.logs import configure_logs
from callsheet.toolbox.loops import LoopGroup
from tests.support.rooms import jobs_room

TOKENS = 1_000_000_000
EMBEDDED: Mapping[str, str | None] = {"dsn": None}
OPEN_LANE = """
INSERT INTO dispatch_lanes (workflow_id, stage, provider, priority) VALUES ($1, 'production', 'self_hosted', 0)
"""


@dataclass(frozen=True, slots=True)
class BenchInstallation:
    """Databases, the room of jobs, a tenant and a workflow."""

    home: Path
    databases: Databases
    room: JobsRoom
    tenant_id: UUID
    workflow_id: int

    @property
    def central(self) -> Database:
        return self.databases.central

    @property
    def pool(self) -> Database:
        return self.databases.pools[0]

    @property
    def criteria(self) -> Criteria:
        return Criteria((self.workflow_id,))

    async def add_users(self, count: int) -> list[UUID]:
        """Users who can pay for whatever is measured."""
        users = [uuid7() for _ in range(count)]
        async with self.pool.connection() as connection:
            await connection.execute(
                """SELECT wallet_lock($1, u), wallet_move($1, u, 'PAYMENT_CREDIT', $3, NULL, NULL, u::text)
                   FROM unnest($2::uuid[]) AS u""",
                self.tenant_id,
                users,
                TOKENS,
            )
        return users

    async def add_members(self, count: int) -> list[tuple[UUID, UUID]]:
        """Users who can pay, each of a tenant of its own: (tenant, user)."""
        members = [(uuid7(), uuid7()) for _ in range(count)]
        tenants, users = [tenant for tenant, _ in members], [user for _, user in members]
        async with self.pool.connection() as connection:
            await connection.execute("INSERT INTO pool_tenants (tenant_id) SELECT unnest($1::uuid[])", tenants)
            await connection.execute(
                """SELECT wallet_lock(t, u), wallet_move(t, u, 'PAYMENT_CREDIT', $3, NULL, NULL, u::text)
                   FROM unnest($1::uuid[], $2::uuid[]) AS member (t, u)""",
                tenants,
                users,
                TOKENS,
            )
        async with self.central.connection() as connection:
            await connection.execute(
                """INSERT INTO tenants (id, slug, name, db_pool)
                   SELECT t, 'bench-' || t, 'Bench', $2 FROM unnest($1::uuid[]) AS t""",
                tenants,
                self.pool.name,
            )
        return members

    async def new_database(self, name: str) -> str:
        """Creates another database on the same server, for a peer. Returns its DSN."""
        await create_database(self.central.dsn, "central", name)
        return with_database(self.central.dsn, name)


@asynccontextmanager
async def open_bench_installation(
    *,
    listening: bool = False,
    loops: tuple[str, ...] = (),
    places: Mapping[str, str | None] = EMBEDDED,
    settings: Mapping[str, int | None] = MappingProxyType({}),
) -> AsyncIterator[BenchInstallation]:
    """A room of jobs on a fresh installation; with the named loops, and with wake-ups, as in production.

    `places`: the DSNs of central, for an installation on another server than one of its own. `settings`: of jobs.
    """
    async with AsyncExitStack() as undo:
        home = undo.enter_context(fresh_home())
        undo.enter_context(unread_logs())
        databases = await open_databases(load_settings(home=home, database=places))
        undo.push_async_callback(databases.close)
        await _let_checks_be_left_out(databases)
        notifier = Notifier(databases.central)
        undo.push_async_callback(notifier.close)
        room = jobs_room(
            databases,
            load_settings(home=home, jobs={"submits_per_minute": None, **settings}).jobs,
            notify=notifier.notify,
        )
        if listening:
            await _listen(room, databases, undo)
        wanted = LoopGroup(loop for loop in (*room.dispatch.loops, *room.loops) if loop.name in loops)
        wanted.start()
        undo.push_async_callback(wanted.stop)
        tenant_id = await add_tenant(databases.central, databases.pools[0])
        workflow_id = (await add_workflows(databases.central, 1))[0]
        async with databases.central.connection() as connection:
            await connection.execute(OPEN_LANE, workflow_id)
        yield BenchInstallation(home, databases, room, tenant_id, workflow_id)


@contextmanager
def unread_logs() -> Iterator[None]:
    """The log lines are made and written as in production. No process reads them here."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        configure_logs("info", "json", nowhere)
        try:
            yield
        finally:
            configure_logs("warning")


async def _let_checks_be_left_out(databases: Databases) -> None:
    """Filling a million rows takes longer than the measurement where each foreign key is checked."""
    if databases.embedded is None:
        return
    superuser = await asyncpg.connect(databases.embedded.dsn("postgres"))
    try:
        await superuser.execute(f"GRANT SET ON PARAMETER session_replication_role TO {APPLICATION}")
    finally:
        await superuser.close()


async def _listen(room: JobsRoom, databases: Databases, undo: AsyncExitStack) -> None:
    listener = Listener(databases.central)
    room.dispatch.listen(listener)
    room.listen(listener)
    listener.start()
    undo.push_async_callback(listener.stop)
    await listener.connected.wait()


async def add_tenant(central: Database, pool: Database) -> UUID:
    tenant_id = uuid7()
    async with pool.connection() as connection:
        await connection.execute("INSERT INTO pool_tenants (tenant_id) VALUES ($1)", tenant_id)
    async with central.connection() as connection:
        await connection.execute(
            "INSERT INTO tenants (id, slug, name, db_pool) VALUES ($1, 'bench', 'Bench', $2)", tenant_id, pool.name
        )
    return tenant_id


async def add_workflows(central: Database, count: int) -> list[int]:
    async with central.connection() as connection:
        rows = await connection.fetch(
            """INSERT INTO workflows (slug, name) SELECT 'bench-' || n, 'Bench' FROM generate_series(1, $1::integer) n
               RETURNING id""",
            count,
        )
    return [row["id"] for row in rows]


def new_entry(workflow_id: int, tenant_id: UUID, user_id: UUID, priority: int = 0) -> QueueEntry:
    """A new job, as the relay would put it into the queue."""
    return QueueEntry(
        tenant_id=tenant_id,
        user_id=user_id,
        job_id=uuid7(),
        charge_cycle=1,
        workflow_id=workflow_id,
        stage="production",
        provider="self_hosted",
        concurrency_identifier="",
        priority=priority,
        kind="bench",
        max_attempts=3,
        lease_seconds=900,
        run_limit_seconds=3600,
        deadline_at=datetime.now(UTC) + timedelta(days=1),
    )


async def analyze(dsn: str) -> None:
    """Does what autovacuum would do within the minute, before the measurement."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("ANALYZE")
    finally:
        await connection.close()
