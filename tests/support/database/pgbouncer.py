"""A PgBouncer in front of a PostgreSQL server: the program that is installed on this machine.

async with pgbouncer(postgres, tmp_path, "session") as pooler:
    dsn = pooler.through(postgres.dsn("central"))
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import asyncpg
import pytest

from callsheet.plumbing.embedded import EmbeddedPostgres
from tests.support.run.ports import HOST, free_port
from tests.support.waiting import until

Mode = Literal["session", "transaction"]
# Debian installs it outside the PATH of ordinary users.
PLACES = f"{os.environ.get('PATH', '')}:/usr/sbin"
# This version tracks prepared statements in transaction mode.
TRACKS_STATEMENTS = (1, 21)


@dataclass(frozen=True)
class PgBouncer:
    port: int
    mode: Mode
    version: tuple[int, ...]

    def through(self, dsn: str) -> str:
        """The DSN of the same database through the pooler."""
        parts = urlsplit(dsn)
        user = parts.netloc.rpartition("@")[0]
        return f"postgresql://{user}@{HOST}:{self.port}{parts.path}?sslmode=disable"

    @property
    def tracks_statements(self) -> bool:
        return self.version >= TRACKS_STATEMENTS


def find_pgbouncer(program: str = "pgbouncer") -> str:
    found = shutil.which(program, path=PLACES)
    if found is None:
        pytest.exit(
            f"The program {program} is not installed. On Debian and Ubuntu: apt-get install pgbouncer. Or name the "
            "program: make test-pgbouncer PGBOUNCER=/opt/pgbouncer/bin/pgbouncer",
            returncode=2,
        )
    return found


class Chosen:
    """The pooler that installations of tests are behind: `make test-pgbouncer` chooses it."""

    pooler: PgBouncer | None = None


@asynccontextmanager
async def chosen_pooler(
    config: pytest.Config, postgres: EmbeddedPostgres, directories: pytest.TempPathFactory
) -> AsyncIterator[None]:
    """Starts the pooler that the options of pytest name."""
    mode = config.getoption("--pooler")
    if mode is None:
        yield
        return
    directory = public_directory(directories, "pooler")
    async with pgbouncer(postgres, directory, mode, config.getoption("--pgbouncer")) as Chosen.pooler:
        yield
    Chosen.pooler = None


def public_directory(directories: pytest.TempPathFactory, name: str) -> Path:
    """A directory that the user of PgBouncer may enter: as root, it runs as another user."""
    directory = directories.mktemp(name)
    for each in (directories.getbasetemp().parent, directories.getbasetemp(), directory):
        each.chmod(each.stat().st_mode | 0o011)
    return directory


@asynccontextmanager
async def pgbouncer(
    postgres: EmbeddedPostgres, directory: Path, mode: Mode, program: str = "pgbouncer", **options: str
) -> AsyncIterator[PgBouncer]:
    path, version = find_pgbouncer(program), version_of(program)
    dsns = (postgres.dsn("postgres"), postgres.application_dsn("postgres"))
    pooler = PgBouncer(free_port(), mode, version)
    configuration = _write_files(pooler, directory, dsns, options)
    # It refuses to run as root.
    become = ("-u", "nobody") if os.geteuid() == 0 else ()
    with (directory / "pgbouncer.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(path, "-q", *become, str(configuration), stdout=log, stderr=log)

    async def responds() -> bool:
        assert process.returncode is None, (directory / "pgbouncer.log").read_text()
        with suppress(OSError, asyncpg.PostgresError):
            connection = await asyncpg.connect(pooler.through(dsns[0]))
            connection.terminate()
            return True
        return False

    try:
        await until(responds)
        yield pooler
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _write_files(pooler: PgBouncer, directory: Path, dsns: tuple[str, ...], options: dict[str, str]) -> Path:
    server = urlsplit(dsns[0])
    users = [urlsplit(dsn) for dsn in dsns]
    settings = {
        "listen_addr": HOST,
        "listen_port": str(pooler.port),
        "unix_socket_dir": "",
        "auth_type": "trust",
        "auth_file": str(directory / "users.txt"),
        "pool_mode": pooler.mode,
        "max_client_conn": "500",
        "default_pool_size": "40",
        **({"max_prepared_statements": "200"} if pooler.tracks_statements else {}),
        **options,
    }
    lines = ["[databases]", f"* = host={server.hostname} port={server.port}", "[pgbouncer]"]
    configuration = directory / "pgbouncer.ini"
    configuration.write_text("\n".join([*lines, *(f"{name} = {value}" for name, value in settings.items()), ""]))
    (directory / "users.txt").write_text("".join(f'"{user.username}" "{user.password}"\n' for user in users))
    # As root, it runs as another user.
    for path in (directory, configuration, directory / "users.txt"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return configuration


def version_of(program: str) -> tuple[int, ...]:
    text = subprocess.run([find_pgbouncer(program), "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"PgBouncer (\d+)\.(\d+)", text)
    assert found is not None, text
    return int(found[1]), int(found[2])
