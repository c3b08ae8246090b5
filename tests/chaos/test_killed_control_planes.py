"""A control plane with random work is killed repeatedly with -9, and so is the database: nothing is lost."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from uuid import UUID

import asyncpg
import pytest

from callsheet.plumbing.database.database import create_database
from callsheet.plumbing.database.databases import Databases, open_databases
from callsheet.plumbing.database.migrate import migrate
from callsheet.plumbing.embedded import EmbeddedPostgres
from callsheet.settings import load_settings
from callsheet.wire.jobs import TERMINAL
from tests.chaos.lasting_provider import LastingProvider
from tests.chaos.random_operations import calls_of, settings_of
from tests.support.database.room_statements import statements_of_room
from tests.support.jobs.core import Core, open_core
from tests.support.waiting import until

PLUMBING = statements_of_room("plumbing")

PROGRAM = Path(__file__).with_name("random_operations.py")
KILLS, KILLS_IN_LONG_FORM = 12, 100
# Every so many rounds the database is killed too.
DATABASE_EVERY = 4
MIN_SUBMITTED = 5
TOKENS = 1_000_000


class Installation:
    def __init__(self, directory: Path, seed: int):
        self.home = directory / "home"
        self.cast = directory / "cast.json"
        self.acknowledged = directory / "acknowledged"
        self.acknowledged.touch()
        self.random = Random(seed)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Databases]:
        databases = await open_databases(load_settings(home=self.home, log={"level": "warning"}))
        try:
            yield databases
        finally:
            await databases.close()

    async def prepare(self, postgres: EmbeddedPostgres) -> None:
        """Two pools on the embedded server, two tenants with two users each."""
        async with self.opened():
            await create_database(postgres.application_dsn("postgres"), "pool_2", "pool_2")
            await migrate(postgres.application_dsn("pool_2"), "pool", "pool_2")
            connection = await asyncpg.connect(postgres.dsn("central"))
            await PLUMBING["register_pool"].run(connection, name="pool_2", database="pool_2", sealed_dsn=None)
            await connection.close()
        async with self.opened() as databases:
            core = await open_core(databases).prepare()
            tenants = [await core.member("pool_1", TOKENS), await core.member("pool_2", TOKENS)]
            members = [*tenants, *[await core.member(tenant=tenant, tokens=TOKENS) for tenant in tenants]]
            pairs = [(str(member.tenant_id), str(member.user_id)) for member in members]
            self.cast.write_text(json.dumps({"members": pairs, "workflow": core.workflow}))

    async def play_and_kill(self, *, database_too: bool) -> None:
        seed = self.random.randrange(2**32)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *map(str, (PROGRAM, self.home, self.cast, self.acknowledged, seed)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(PROGRAM.parents[2])},
        )
        assert process.stdout is not None
        promised = len(self.promised())
        try:
            assert await process.stdout.readline() == b"playing\n", await _last_words(process)
            # However slow the machine is, something has happened in every round.
            await until(lambda: process.returncode is not None or len(self.promised()) >= promised + MIN_SUBMITTED)
            await asyncio.sleep(self.random.uniform(0.1, 0.7))
            if database_too:
                self._kill_database()
                await asyncio.sleep(self.random.uniform(0.0, 1.0))
            assert process.returncode is None, await _last_words(process)
        finally:
            if process.returncode is None:
                process.kill()
            await process.communicate()

    def _kill_database(self) -> None:
        postmaster = int((self.home / "postgres" / "data" / "postmaster.pid").read_text().split()[0])
        keeper = _parent_of(postmaster)
        os.kill(self.random.choice([postmaster, keeper]), signal.SIGKILL)

    def promised(self) -> list[tuple[UUID, UUID]]:
        """Tenant and job of each line that was written to its end."""
        lines = self.acknowledged.read_text().rpartition("\n")[0].splitlines()
        return [(UUID(tenant_id), UUID(job_id)) for tenant_id, job_id in map(str.split, lines)]


def _parent_of(process: int) -> int:
    status = Path(f"/proc/{process}/status")
    if status.exists():
        return int(status.read_text().partition("PPid:")[2].split()[0])
    return int(subprocess.run(["ps", "-o", "ppid=", "-p", str(process)], capture_output=True, check=True).stdout)


async def _last_words(process: asyncio.subprocess.Process) -> str:
    process.kill()
    _, errors = await process.communicate()
    return f"it ended by itself: {errors.decode()}"


async def _end_calls(core: Core, home: Path) -> None:
    """What the loop does when it is left alone, in fast motion."""
    settings, provider = settings_of(home), LastingProvider(book=home / "predictions")
    calls = calls_of(core.databases, core.room, settings, provider)
    due = "UPDATE provider_calls SET next_at = clock_timestamp() WHERE work IS NOT NULL RETURNING call_id"
    while await core.rows(core.databases.central, due):
        await calls.calls.tick(datetime.now(UTC))
        await calls.calls.settled()
    await calls.close()


async def _statuses(core: Core) -> dict[tuple[UUID, UUID], str]:
    rows = [row for pool in core.databases.pools for row in await core.rows(pool, "SELECT * FROM ai_jobs")]
    return {(row["tenant_id"], row["id"]): row["status"] for row in rows}


@pytest.fixture
async def installation(tmp_path: Path, chaos_seed: int) -> AsyncIterator[Installation]:
    installation = Installation(tmp_path, chaos_seed)
    # This claim keeps the server up between two lives of the program.
    postgres = await EmbeddedPostgres.start(installation.home)
    await installation.prepare(postgres)
    yield installation
    await postgres.close()


@pytest.mark.thorough
async def test_g1_g2_g12_no_job_is_lost_or_charged_twice_whatever_is_killed_at_any_time(
    installation: Installation, long_form: bool
) -> None:
    for number in range(1, (KILLS_IN_LONG_FORM if long_form else KILLS) + 1):
        await installation.play_and_kill(database_too=number % DATABASE_EVERY == 0)

    async with installation.opened() as databases:
        core = open_core(databases)
        await core.check()
        await core.drain()
        await core.check_drained()
        # Of every call something became, and no word that comes now changes anything.
        await _end_calls(core, installation.home)
        await core.check_drained()
        statuses = await _statuses(core)
        taken = await core.rows(core.databases.central, "SELECT 1 FROM provider_callbacks WHERE outcome = 'taken'")

    promised = installation.promised()
    assert [key for key in promised if statuses.get(key) not in TERMINAL] == []
    # It was a play worth seeing.
    assert len(set(promised)) > 2 * KILLS
    assert set(statuses.values()) >= {"completed", "failed"}
    assert taken
