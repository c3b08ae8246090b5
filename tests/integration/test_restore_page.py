"""The commands of docs/how-to/restore-and-copy.md, run exactly as printed on a server of our own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import asyncpg
import pytest

from callsheet.media.storage import open_storage
from callsheet.plumbing.database.databases import open_databases
from callsheet.plumbing.embedded import EmbeddedPostgres
from callsheet.plumbing.embedded.binaries import find_binaries
from callsheet.plumbing.installation.secrets import master_secret
from callsheet.settings import Settings, load_settings
from tests.support.database.installation import isolate
from tests.support.jobs.core import Core, open_core
from tests.support.jobs.job_states import CONSUMED, RESERVED

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "restore-and-copy.md"
BLOCK = re.compile(r"```sh\n(.*?)```", re.DOTALL)
KEY = "the key of this installation, 32 characters or more"
CENTRALS = ("callsheet", "callsheet_restored", "callsheet_both", "staging")
POOLS = ("callsheet_pool_1", "callsheet_pool_1_restored", "callsheet_pool_1_both", "staging_pool_1")
MADE = (*CENTRALS, *POOLS)


@pytest.mark.thorough
async def test_the_page_backs_up_restores_and_copies_with_jobs_in_flight(
    postgres: EmbeddedPostgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    isolate(monkeypatch, tmp_path)
    server = postgres.dsn("").partition("?")[0].rstrip("/")
    programs = [str(find_binaries().psql.parent), str(Path(sys.executable).parent)]
    environment = {
        "PATH": ":".join([*programs, os.environ["PATH"]]),
        "HOME": str(tmp_path),
        "CALLSHEET_HOME": str(tmp_path / "home"),
        "SERVER": server,
        "CALLSHEET_DATABASE__DSN": f"{server}/callsheet",
        "CALLSHEET_SECRET_KEY": KEY,
    }

    def run(commands: str) -> str:
        shell = ["bash", "-euc", f"{commands}\nenv | grep ^CALLSHEET_DATABASE__DSN= > dsn"]
        ended = subprocess.run(shell, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        # An exported variable holds for the blocks that follow.
        environment["CALLSHEET_DATABASE__DSN"] = (tmp_path / "dsn").read_text().strip().partition("=")[2]
        return ended.stdout

    def settings() -> Settings:
        dsn = environment["CALLSHEET_DATABASE__DSN"]
        return load_settings(home=tmp_path / "home", database={"dsn": dsn}, secret_key=KEY, log={"level": "error"})

    @asynccontextmanager
    async def opened() -> AsyncIterator[Core]:
        databases = await open_databases(settings())
        try:
            assert databases.unavailable == {}
            yield open_core(databases)
        finally:
            await databases.close()
            # As if half a minute had passed since the control planes were stopped.
            for pool in databases._keepers:
                await stop(databases._keepers[pool]._database.dsn)

    async def stop(dsn: str) -> None:
        pool = await asyncpg.connect(dsn)
        await pool.execute("UPDATE pool_owner SET renewed_at = renewed_at - interval '30 s'")
        await pool.close()

    _variables, back_up, restore_central, restore_pool, restore_both, copy, own_storage = BLOCK.findall(
        PAGE.read_text("utf-8")
    )
    storage = open_storage(settings(), master_secret(settings()), None)
    admin = await asyncpg.connect(postgres.dsn("postgres"))
    try:
        await admin.execute("CREATE DATABASE callsheet")
        run("callsheet db migrate --create; callsheet tenants create acme")
        async with opened() as core:
            await core.prepare()
            workflow, ann = core.workflow, await core.member("pool_1")
            running, finished = [await core.submit(ann) for _ in range(2)]
            leases = {started.lease.job_id: started for started in [await core.start() for _ in range(2)]}
            await core.complete(leases[finished.id])
            waiting = await core.submit(ann)
            for row in await core.rows(ann.pool, "SELECT path FROM files"):
                # The harness stores no result.
                await storage.put(row["path"], b"a video", content_type="video/mp4")
        run(back_up)
        async with opened() as core:
            core.workflow = workflow
            await core.complete(leases[running.id])
            later = await core.submit(replace(ann, pool=await core.databases.pool("pool_1")))
        printed = run(restore_central)
        assert "is a restored or copied one" in printed
        assert "pool_1: " in printed
        assert "This central owns pool_1 now." in printed
        assert "is a restored or copied one" not in printed.partition("This central owns")[2]
        async with opened() as core:
            # Accepted after the dump of central.
            assert await core.status(replace(ann, pool=await core.databases.pool("pool_1")), later.id) == "queued"
        printed = run(restore_pool)
        assert "It replaces the database at" in printed
        assert "callsheet_pool_1_restored" in printed
        printed = run(restore_both)
        assert "Every wallet in pool_1 balances." in printed
        async with opened() as core:
            core.workflow = workflow
            ann = replace(ann, pool=await core.databases.pool("pool_1"))
            assert await core.rows(ann.pool, "SELECT 1 FROM ai_jobs WHERE id = $1", later.id) == []
            # Its worker did not notice anything, and reports again.
            await core.complete(leases[running.id])
            await core.drain()
            for job in (running, finished, waiting):
                assert await core.ledger(ann, job.id) == [RESERVED, CONSUMED]
            assert await core.balance(ann) == 1000 - 3 * 10
            await core.check_drained()
        # The first central still names the first database of its pool.
        first = run(f"CALLSHEET_DATABASE__DSN={server}/callsheet callsheet db status")
        assert "This database of pool pool_1 was retired at" in first
        assert "/callsheet_pool_1_restored took its place" in first
        printed = run(copy)
        assert "with pools of its own" in printed
        assert "staging_pool_1" in printed
        assert "owns the storage" in run(own_storage)
        assert "acme" in run("callsheet tenants list")
    finally:
        for name in MADE:
            await admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        await admin.close()
        await storage.close()
