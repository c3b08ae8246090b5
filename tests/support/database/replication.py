"""A primary and its streaming standby: real servers that are killed, frozen, promoted and made read-only.

async def test_…(pair: Pair) -> None:
    dsn = pair.dsn("central")                               # names both servers, the primary first
    await pair.primary.kill()                               # or freeze(), thaw(), stop()
    await pair.standby.promote()

`silent_host` accepts connections and never responds, and `unreachable_host` drops packets.
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import psutil

from callsheet.plumbing.database.migrate import migrate
from callsheet.plumbing.database.servers.connecting import TIMELINES
from callsheet.plumbing.database.sql import DatabaseKind
from callsheet.plumbing.embedded.account import Account, choose_account
from callsheet.plumbing.embedded.binaries import ENVIRONMENT, Binaries, find_binaries
from callsheet.plumbing.embedded.layout import Layout
from tests.support.run.ports import HOST, free_port
from tests.support.waiting import until

USER = "callsheet"
KINDS: dict[str, DatabaseKind] = {"central": "central", "pool_1": "pool"}
# Also if the test run is killed. The system's Python cannot do this, because other users may not run it everywhere.
ENDS_WITH_THE_TESTS = ("setpriv", "--pdeathsig=KILL", "--") if shutil.which("setpriv") else ()
OPTIONS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "max_connections": "100",
    "shared_buffers": "32MB",
    "fsync": "off",
    "timezone": "UTC",
    # A standby that starts again later still finds the log that it needs.
    "wal_keep_size": "256MB",
    # A standby that cannot reach its primary asks again soon.
    "wal_retrieve_retry_interval": "100ms",
}


@dataclass(frozen=True)
class Programs:
    """The programs of PostgreSQL, run by the user that may run them."""

    binaries: Binaries
    account: Account

    @classmethod
    def below(cls, directory: Path) -> Programs:
        layout, binaries = Layout.of(directory), find_binaries()
        layout.prepare()
        return cls(binaries, choose_account(layout, binaries))

    async def run(self, program: str, *arguments: str | Path) -> None:
        result = await asyncio.to_thread(self.account.run, self.binaries.directory / program, *arguments)
        assert result.returncode == 0, result.stderr


@dataclass
class Server:
    """One server: a data directory, and a port that stays the same."""

    programs: Programs
    data: Path
    # The server that it follows as long as it is a standby.
    primary: Server | None = None
    port: int = field(default_factory=free_port)
    _process: asyncio.subprocess.Process | None = None

    @property
    def name(self) -> str:
        return self.data.name

    @property
    def host(self) -> str:
        return f"{HOST}:{self.port}"

    def dsn(self, database: str) -> str:
        return dsn_of(database, self)

    async def create(self) -> None:
        """Makes an empty cluster. Local users need no password."""
        self._make_directory()
        await self.programs.run(
            "initdb", "-D", self.data, "-U", USER, "--auth=trust", "--no-sync", "--wal-segsize=1",
            "--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8",
        )  # fmt: skip

    async def copy(self, primary: Server) -> None:
        """Becomes a standby of a running server."""
        self._make_directory()
        self.primary = primary
        await self.programs.run(
            "pg_basebackup", "-D", self.data, "-d", primary.dsn("postgres"), "--checkpoint=fast", "--no-sync",
        )  # fmt: skip
        self.be_standby_of(primary)

    def be_standby_of(self, primary: Server) -> None:
        """At the next start, it follows that server."""
        self.primary = primary
        (self.data / "standby.signal").touch()

    async def rewind(self, primary: Server) -> None:
        """Drops what only this stopped server has since that one was promoted. At the next start, it follows it."""
        # Otherwise its control file still has the timeline from before the promotion.
        await primary.value("CHECKPOINT")
        await self.programs.run(
            "pg_rewind", "-D", self.data, f"--source-server={primary.dsn('postgres')}", "--no-sync",
        )  # fmt: skip
        self.be_standby_of(primary)

    async def start(self) -> None:
        """Starts the server and waits until it accepts connections."""
        chosen = {**OPTIONS, "port": str(self.port)}
        if self.primary is not None:
            place = f"host={HOST} port={self.primary.port} user={USER} sslmode=disable"
            chosen["primary_conninfo"] = f"{place} application_name={self.name}"
        options = [f"--{name}={value}" for name, value in chosen.items()]
        command = self.programs.account.command(self.programs.binaries.postgres, "-D", self.data, *options)
        user, group = self.programs.account.switch
        become: dict[str, Any] = {} if user is None else {"user": user, "group": group, "extra_groups": []}
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *ENDS_WITH_THE_TESTS,
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env={**ENVIRONMENT, "PATH": "/usr/bin:/bin"},
                **become,
            )
        await until(self._accepts_connections)

    async def stop(self) -> None:
        """Stops the server as an administrator does: standbys get everything first."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGINT)
            await self._process.wait()

    async def kill(self) -> None:
        """Ends all processes of the server at once, as if the power failed."""
        self._send(signal.SIGKILL)
        if self._process is not None:
            await self._process.wait()

    def freeze(self) -> None:
        """The kernel accepts connections and acknowledges what arrives, but no process responds."""
        self._send(signal.SIGSTOP)

    def thaw(self) -> None:
        self._send(signal.SIGCONT)

    async def promote(self) -> None:
        assert await self.value("SELECT pg_promote()")

    async def set(self, name: str, value: str) -> None:
        """Changes a setting of the running server."""
        await self.value(f"ALTER SYSTEM SET {name} = {value}")
        await self.value("SELECT pg_reload_conf()")

        async def is_set() -> bool:
            return bool(await self.value(f"SELECT current_setting('{name}') = {value}::text"))

        await until(is_set)

    async def value(self, query: str, database: str = "postgres") -> object:
        connection = await asyncpg.connect(self.dsn(database))
        try:
            return await connection.fetchval(query)
        finally:
            await connection.close()

    def _make_directory(self) -> None:
        shutil.rmtree(self.data, ignore_errors=True)
        self.data.mkdir(0o700)
        self.programs.account.take(self.data)

    @property
    def _log(self) -> Path:
        return self.data.with_suffix(".log")

    async def _accepts_connections(self) -> bool:
        assert self._process is not None
        assert self._process.returncode is None, self._log.read_text()
        with suppress(OSError, asyncpg.PostgresError):
            return await self.value("SELECT true") is True
        return False

    def _send(self, number: signal.Signals) -> None:
        if self._process is None or self._process.returncode is not None:
            return
        # The postmaster first, because it would start others.
        postmaster = psutil.Process(self._process.pid)
        children = postmaster.children(recursive=True) if number == signal.SIGKILL else []
        postmaster.send_signal(number)
        for child in children or postmaster.children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                child.send_signal(number)


@dataclass(frozen=True)
class Pair:
    """Two servers by their first roles. After a failover, `standby` is the primary."""

    primary: Server
    standby: Server

    def dsn(self, database: str) -> str:
        return dsn_of(database, self.primary, self.standby)

    async def replicated(self) -> None:
        """Waits until the standby has everything that was committed on the primary."""
        position = await self.primary.value("SELECT pg_current_wal_lsn()::text")

        async def has_all() -> bool:
            return bool(await self.standby.value(f"SELECT pg_last_wal_replay_lsn() >= '{position}'"))

        await until(has_all)

    async def make_synchronous(self) -> None:
        """From now on, a commit waits for the standby."""
        await self.primary.set("synchronous_standby_names", f"'{self.standby.name}'")

        async def is_synchronous() -> bool:
            return await self.primary.value("SELECT sync_state FROM pg_stat_replication") == "sync"

        await until(is_synchronous)


def dsn_of(database: str, *hosts: Server | str) -> str:
    named = ",".join(host if isinstance(host, str) else host.host for host in hosts)
    return f"postgresql://{USER}@{named}/{database}?sslmode=disable"


class PairFiles:
    """The files of a pair with the databases of an installation, made once."""

    def __init__(self, directory: Path):
        self._directory = directory
        (directory / "original").mkdir(0o711)
        self._programs = Programs.below(directory)
        self._numbers = itertools.count(1)

    async def prepare(self) -> None:
        async with self._started(self._directory / "original", is_new=True) as pair:
            for database, kind in KINDS.items():
                await pair.primary.value(f"CREATE DATABASE {database}")
                await migrate(pair.primary.dsn(database), kind, database)
            await pair.replicated()
            await pair.primary.stop()
            await pair.standby.stop()

    @asynccontextmanager
    async def copied(self) -> AsyncIterator[Pair]:
        """A running pair that no test has changed, on new ports."""
        folder = self._directory / f"copy_{next(self._numbers)}"
        # Ten times as fast as shutil for thousands of small files.
        copying = await asyncio.create_subprocess_exec("cp", "-a", self._directory / "original", folder)
        assert await copying.wait() == 0
        # The servers of an earlier pair had the same files, and perhaps the same ports.
        TIMELINES.forget()
        try:
            async with self._started(folder) as pair:
                yield pair
        finally:
            await asyncio.to_thread(shutil.rmtree, folder)

    @asynccontextmanager
    async def _started(self, folder: Path, *, is_new: bool = False) -> AsyncIterator[Pair]:
        primary = Server(self._programs, folder / "one")
        pair = Pair(primary, Server(self._programs, folder / "two", primary))
        try:
            if is_new:
                await primary.create()
                await primary.start()
                await pair.standby.copy(primary)
                await pair.standby.start()
            else:
                await asyncio.gather(primary.start(), pair.standby.start())
            yield pair
        finally:
            await asyncio.gather(primary.kill(), pair.standby.kill())


@asynccontextmanager
async def silent_host() -> AsyncIterator[str]:
    """A host whose kernel accepts connections, and no program responds: a frozen machine."""

    async def never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    port = free_port()
    server = await asyncio.start_server(never, HOST, port)
    try:
        yield f"{HOST}:{port}"
    finally:
        server.close()


@contextmanager
def unreachable_host() -> Iterator[str]:
    """A host that drops packets: no connection to it is established (on Linux)."""
    port = free_port()
    with socket.create_server((HOST, port), backlog=0), socket.socket() as first, socket.socket() as second:
        # The kernel drops further attempts when the queue is full.
        for each in (first, second):
            each.setblocking(False)
            each.connect_ex((HOST, port))
        yield f"{HOST}:{port}"
