"""A Patroni cluster of two PostgreSQL servers behind an HAProxy, with an etcd: the programs that are installed here.

async with patroni_cluster(Path("/usr/lib/postgresql/15/bin")) as cluster:
    dsn = cluster.through_haproxy("central")            # or cluster.by_hosts("central")
    leader, standby = await cluster.roles()
    leader.kill()                                       # or freeze(), thaw(); await cluster.switch_over()
    await cluster.is_led_by(standby)
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg
import httpx
import psutil
import pytest

from callsheet.plumbing.database.migrate import migrate
from tests.support.database.replication import KINDS, OPTIONS, USER, dsn_of
from tests.support.run.ports import HOST, free_port
from tests.support.waiting import until

PROGRAMS = ("patroni", "etcd", "haproxy")
# Debian installs HAProxy outside the PATH of ordinary users.
PLACES = f"{os.environ.get('PATH', '')}:/usr/sbin"
# The shortest that Patroni recommends. A leader that is gone is replaced when its time is over.
LEADER_SECONDS, LOOP_SECONDS, RETRY_SECONDS = 20, 1, 3
# As root, PostgreSQL and what starts it run as the user of Debian's package.
ACCOUNT = "postgres"
BEGINS_SECONDS = 120.0

HAPROXY = """
global
    maxconn 2000
defaults
    mode tcp
    timeout connect 2s
    timeout check 2s
    timeout client 1h
    timeout server 1h
listen primary
    bind {address}
    option httpchk OPTIONS /primary
    http-check expect status 200
    default-server inter 1s fall 2 rise 1 on-marked-down shutdown-sessions
{servers}
"""


def require_programs(postgres: Path) -> None:
    """Ends the run with a sentence if a program is not installed."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=PLACES) is None]
    missing += [] if (postgres / "postgres").exists() else [str(postgres / "postgres")]
    if missing:
        pytest.exit(
            f"Not installed: {', '.join(missing)}. On Debian: apt-get install patroni python3-etcd etcd-server haproxy "
            "postgresql-15. Or name the programs of PostgreSQL: make chaos-patroni POSTGRES_BIN=/opt/postgresql/bin",
            returncode=2,
        )


@dataclass
class Node:
    """A machine of the cluster: Patroni and the PostgreSQL that it starts."""

    directory: Path
    postgres: Path
    etcd: str
    port: int = field(default_factory=free_port)
    rest_port: int = field(default_factory=free_port)

    @property
    def name(self) -> str:
        return self.directory.name

    @property
    def host(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def rest(self) -> str:
        return f"{HOST}:{self.rest_port}"

    @property
    def _configuration(self) -> Path:
        return self.directory / "patroni.json"

    def write_configuration(self) -> Path:
        parameters = {name: value for name, value in OPTIONS.items() if name != "listen_addresses"}
        configuration = {
            "scope": "callsheet",
            "name": self.name,
            "restapi": {"listen": self.rest, "connect_address": self.rest},
            "etcd3": {"hosts": [self.etcd]},
            "bootstrap": {
                "dcs": {
                    "ttl": LEADER_SECONDS,
                    "loop_wait": LOOP_SECONDS,
                    "retry_timeout": RETRY_SECONDS,
                    "synchronous_mode": True,
                    "postgresql": {"use_pg_rewind": True, "parameters": parameters},
                },
                "initdb": [{"encoding": "UTF8"}, {"locale": "C.UTF-8"}, {"auth": "trust"}],
            },
            "postgresql": {
                "listen": self.host,
                "connect_address": self.host,
                "data_dir": str(self.directory / "data"),
                "bin_dir": str(self.postgres),
                "basebackup": [{"checkpoint": "fast"}],
                "pgpass": str(self.directory / "pgpass"),
                "pg_hba": [f"host {databases} all {HOST}/32 trust" for databases in ("all", "replication")],
                "authentication": {"superuser": {"username": USER}, "replication": {"username": "replicator"}},
            },
        }
        self._configuration.write_text(json.dumps(configuration))
        return self._configuration

    def kill(self) -> None:
        """As if the machine lost its power."""
        self._send(signal.SIGKILL)

    def freeze(self) -> None:
        self._send(signal.SIGSTOP)

    def thaw(self) -> None:
        self._send(signal.SIGCONT)

    async def is_leader(self) -> bool:
        """Whether Patroni says that this server accepts writes."""
        return await self._is("primary")

    async def is_standby(self) -> bool:
        return await self._is("replica")

    async def _is(self, role: str) -> bool:
        async with httpx.AsyncClient(trust_env=False, timeout=2) as client:
            try:
                return (await client.get(f"http://{self.rest}/{role}")).status_code == 200
            except httpx.TransportError:
                return False

    async def value(self, query: str, database: str = "postgres") -> object:
        connection = await asyncpg.connect(dsn_of(database, self.host))
        try:
            return await connection.fetchval(query)
        finally:
            await connection.close()

    def _send(self, number: signal.Signals) -> None:
        for process in self._processes():
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    def _processes(self) -> Sequence[psutil.Process]:
        """Patroni first, because it would start PostgreSQL again; and PostgreSQL's first one before its others."""
        own = str(self._configuration)
        roots = [each for each in psutil.process_iter(["cmdline"]) if own in (each.info["cmdline"] or ())]
        with suppress(OSError, psutil.NoSuchProcess):
            roots.append(psutil.Process(int((self.directory / "data/postmaster.pid").read_text().split()[0])))
        found = dict.fromkeys(roots)
        for root in roots:
            with suppress(psutil.NoSuchProcess):
                found |= dict.fromkeys(root.children(recursive=True))
        return tuple(found)


@dataclass(frozen=True)
class Cluster:
    nodes: tuple[Node, Node]
    haproxy: str

    def through_haproxy(self, database: str) -> str:
        return dsn_of(database, self.haproxy)

    def by_hosts(self, database: str) -> str:
        return dsn_of(database, *(node.host for node in self.nodes))

    async def roles(self) -> tuple[Node, Node]:
        """The leader and its standby, once the standby is synchronous."""
        one, two = self.nodes
        leader, standby = (one, two) if await one.is_leader() else (two, one)
        await self.is_led_by(leader)

        async def is_synchronous() -> bool:
            return await leader.value("SELECT sync_state FROM pg_stat_replication") == "sync"

        await until(is_synchronous, BEGINS_SECONDS)
        return leader, standby

    async def is_led_by(self, node: Node) -> None:
        await until(node.is_leader, BEGINS_SECONDS)

    async def switch_over(self, leader: Node, standby: Node) -> None:
        """As an administrator does before maintenance of the leader."""
        async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
            wanted = {"leader": leader.name, "candidate": standby.name}

            async def is_accepted() -> bool:
                response = await client.post(f"http://{leader.rest}/switchover", json=wanted)
                # Patroni has not noted yet that the standby is synchronous.
                assert response.status_code in (200, 412), response.text
                return response.status_code == 200

            await until(is_accepted, BEGINS_SECONDS)


@asynccontextmanager
async def patroni_cluster(postgres: Path) -> AsyncIterator[Cluster]:
    """A running cluster with the databases of an installation."""
    # Not below the directory of the tests, which pytest closes for other users.
    with tempfile.TemporaryDirectory(prefix="callsheet-patroni-") as directory:
        os.chmod(directory, 0o711)
        async with _cluster(Path(directory), postgres) as cluster:
            yield cluster


@asynccontextmanager
async def _cluster(directory: Path, postgres: Path) -> AsyncIterator[Cluster]:
    etcd, peers, haproxy = (f"{HOST}:{free_port()}" for _ in range(3))
    nodes = tuple(Node(directory / name, postgres, etcd) for name in ("one", "two"))
    cluster = Cluster((nodes[0], nodes[1]), haproxy)
    own = directory / "etcd"
    for each in (own, *(node.directory for node in nodes)):
        each.mkdir(mode=0o700)
        _give(each)
    async with AsyncExitStack() as stack:
        for each in nodes:
            stack.callback(each.kill)
        await stack.enter_async_context(
            _running(
                own, "etcd", f"--data-dir={own / 'data'}", f"--initial-cluster=default=http://{peers}",
                f"--listen-client-urls=http://{etcd}", f"--advertise-client-urls=http://{etcd}",
                f"--listen-peer-urls=http://{peers}", f"--initial-advertise-peer-urls=http://{peers}",
            )
        )  # fmt: skip
        for node in nodes:
            written = node.write_configuration()
            _give(written)
            await stack.enter_async_context(_running(node.directory, "patroni", str(written)))
            # The second one copies the first.
            await cluster.is_led_by(nodes[0])
        servers = [f"    server {each.name} {each.host} check port {each.rest_port}" for each in nodes]
        configuration = own / "haproxy.cfg"
        configuration.write_text(HAPROXY.format(address=haproxy, servers="\n".join(servers)))
        _give(configuration)
        await stack.enter_async_context(_running(own, "haproxy", "-f", str(configuration)))
        for database, kind in KINDS.items():
            await nodes[0].value(f"CREATE DATABASE {database}")
            await migrate(dsn_of(database, nodes[0].host), kind, database)
        await cluster.roles()
        yield cluster


def _give(path: Path) -> None:
    """As root, the programs run as another user."""
    if os.geteuid() == 0:
        shutil.chown(path, ACCOUNT, ACCOUNT)


@asynccontextmanager
async def _running(directory: Path, name: str, *arguments: str) -> AsyncIterator[None]:
    program = shutil.which(name, path=PLACES)
    assert program is not None
    become = {"user": ACCOUNT, "group": ACCOUNT, "extra_groups": []} if os.geteuid() == 0 else {}
    with (directory / f"{name}.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            program,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
            **become,
        )
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
