"""The commands of docs/how-to/restore-and-copy.md, run exactly as printed on a server of our own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import asyncpg
import pytest

from callsheet.plumbing.embedded import EmbeddedPostgres
from callsheet.plumbing.embedded.binaries import find_binaries

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "restore-and-copy.md"
BLOCK = re.compile(r"```sh\n(.*?)```", re.DOTALL)
MADE = ("callsheet", "callsheet_pool_1", "callsheet_pool_1_restored", "callsheet_restored", "staging", "staging_pool_1")


@pytest.mark.thorough
async def test_the_page_backs_up_restores_and_copies(postgres: EmbeddedPostgres, tmp_path: Path) -> None:
    server = postgres.dsn("").partition("?")[0].rstrip("/")
    programs = [str(find_binaries().psql.parent), str(Path(sys.executable).parent)]
    environment = {
        "PATH": ":".join([*programs, os.environ["PATH"]]),
        "HOME": str(tmp_path),
        "CALLSHEET_HOME": str(tmp_path / "home"),
        "SERVER": server,
        "CALLSHEET_DATABASE__DSN": f"{server}/callsheet",
        "CALLSHEET_SECRET_KEY": "the key of this installation, 32 characters or more",
    }

    def run(commands: str) -> str:
        shell = ["bash", "-euc", f"{commands}\nenv | grep ^CALLSHEET_DATABASE__DSN= > dsn"]
        ended = subprocess.run(shell, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr
        # An exported variable holds for the blocks that follow.
        environment["CALLSHEET_DATABASE__DSN"] = (tmp_path / "dsn").read_text().strip().partition("=")[2]
        return ended.stdout

    _variables, back_up, restore_pool, restore_central, copy, own_storage = BLOCK.findall(PAGE.read_text("utf-8"))
    admin = await asyncpg.connect(postgres.dsn("postgres"))
    try:
        await admin.execute("CREATE DATABASE callsheet")
        run("callsheet db migrate --create; callsheet tenants create acme")
        run(back_up)
        assert "callsheet_pool_1_restored" in run(restore_pool)
        pool = await asyncpg.connect(postgres.dsn("callsheet_pool_1"))
        # As if half a minute had passed since the first command claimed it.
        await pool.execute("UPDATE pool_owner SET renewed_at = renewed_at - interval '30 s'")
        await pool.close()
        printed = run(restore_central)
        assert "is a restored or copied one" in printed
        assert "This central owns pool_1 now." in printed
        assert "is a restored or copied one" not in printed.partition("This central owns")[2]
        printed = run(copy)
        assert "with pools of its own" in printed
        assert "staging_pool_1" in printed
        assert "owns the storage" in run(own_storage)
        assert "acme" in run("callsheet tenants list")
    finally:
        for name in MADE:
            await admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        await admin.close()
