"""Real parts for every test: one PostgreSQL server per run, new databases per test, real HTTP if it matters."""

from __future__ import annotations

import gc
import io
import logging
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import fastapi.dependencies.models
import httpx
import hypothesis
import pytest
import structlog

from callsheet.app.control_plane import ControlPlane, running_control_plane
from callsheet.jobs.lease import leases
from callsheet.plumbing.database.databases import Databases, open_databases
from callsheet.plumbing.database.migrate import migrate
from callsheet.plumbing.embedded import EmbeddedPostgres
from callsheet.settings import Settings
from callsheet.toolbox.logs import configure_logs
from tests.support.database.installation import empty, installation, isolate, isolated_installation
from tests.support.database.pgbouncer import chosen_pooler
from tests.support.database.replication import Pair, PairFiles
from tests.support.http.accounts import People
from tests.support.jobs.core import Core, open_core
from tests.support.media.seaweedfs import BUCKET, S3Server, seaweedfs
from tests.support.run.connections_at_server_stop import late_connections_closed
from tests.support.run.faster_setup import known_passwords_hashed_once, one_certificate
from tests.support.run.memory import Memory
from tests.support.run.ram_disk import quick_directory
from tests.support.run.retry_delays import LongestDraw

pytest_plugins = [
    "tests.support.run.hanging_tests",
    "tests.support.run.time_and_memory",
    "tests.support.run.left_over_programs",
    "tests.support.run.process_shares",
    "tests.support.run.servers",
    "tests.support.run.tiers",
]

# A shell lets what it starts in the background ignore Ctrl-C, and so would every process that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Until everything is collected: what is imported stays, and looking through it again and again takes a second.
gc.disable()

# httpcore looks for it in every directory of the path, before every request: a tenth of what a request costs.
sys.modules.setdefault("sniffio", None)  # type: ignore[arg-type]

# An example that took 0.2 seconds because the machine was busy says nothing about the property. And the same commit
# gets the same verdict: `make chaos` looks for new examples, and a person looks at what it finds.
PATIENT: dict[str, Any] = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
hypothesis.settings.register_profile("exploring", **PATIENT, max_examples=1000, derandomize=False)
hypothesis.settings.register_profile("thorough", **PATIENT, max_examples=100, derandomize=True, database=None)
hypothesis.settings.register_profile("repeatable", **PATIENT, max_examples=30, derandomize=True, database=None)
hypothesis.settings.load_profile("repeatable")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Hypothesis makes its tables of characters once in a clone: 210 MB, here in a process of its own."""
    root = session.config.rootpath
    if not hasattr(session.config, "workerinput") and not (root / ".hypothesis" / "unicode_data").exists():
        text = "from hypothesis import strategies; strategies.text().validate()"
        subprocess.run([sys.executable, "-c", text], cwd=root, check=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The small files last: a process that has nothing left to do does not wait long for the other."""
    items.sort(key=lambda item: item.nodeid.startswith("tests/unit/") and item.get_closest_marker("thorough") is None)


def pytest_collection_finish() -> None:
    """What was imported and collected stays; looking through it again would only put off what can go.

    And looking seldom saves a twelfth of the processor time: a control plane is many objects that stay.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    gc.enable()


@pytest.fixture(scope="session")
def _memory() -> Memory:
    return Memory()


@pytest.fixture(scope="module", autouse=True)
def _memory_is_given_back(_memory: Memory) -> Iterator[None]:
    """What a file of tests had in small pieces stays with the process otherwise: 100 MB after one with clips."""
    yield
    _memory.give_back()


@pytest.fixture(scope="session", autouse=True)
def _longest_retry_delays() -> None:
    leases.RANDOM = LongestDraw()


@pytest.fixture(scope="session", autouse=True)
def _plain_tracebacks() -> None:
    """What is logged is shown beside a test that fails, with ordinary tracebacks.

    structlog draws them by default, coloured and with every variable of every frame: a second or more of the event
    loop for each, in which a control plane that has lost its database does nothing else.
    """
    processors = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.StackInfoRenderer(),
        structlog.processors.TimeStamper(fmt="%Y-%m-%d %H:%M:%S", utc=False),
        structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
    ]
    # A log line for each request, which no test reads, would be a twentieth of the cost of an HTTP test.
    structlog.configure(processors=processors, wrapper_class=structlog.make_filtering_bound_logger(logging.INFO))


@pytest.fixture(scope="session", autouse=True)
def _no_connection_is_lost() -> Iterator[None]:
    with late_connections_closed():
        yield


@pytest.fixture(scope="session", autouse=True)
def _faster_setup(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with known_passwords_hashed_once(), one_certificate(tmp_path_factory.mktemp("certificates")):
        yield


@pytest.fixture(autouse=True)
def _control_planes_are_forgotten() -> Iterator[None]:
    """FastAPI remembers what the latest 4,096 endpoints are, and with them twenty control planes of 9 MB each."""
    yield
    for remembered in vars(fastapi.dependencies.models).values():
        if hasattr(remembered, "cache_clear"):
            remembered.cache_clear()


@pytest.fixture(autouse=True)
def _only_settings_of_the_test(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    isolate(monkeypatch, tmp_path)


@pytest.fixture(scope="session")
async def postgres(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> AsyncIterator[EmbeddedPostgres]:
    with quick_directory(tmp_path_factory.mktemp("postgres")) as directory:
        server = await EmbeddedPostgres.start(directory)
        admin = await asyncpg.connect(server.dsn("postgres"))
        # No test here pulls the plug of the machine, and waiting for the disk is a third of the suite's time.
        await admin.execute("ALTER SYSTEM SET fsync = off")
        # Each database that is made goes through the log, which would grow to a gigabyte of memory.
        await admin.execute("ALTER SYSTEM SET max_wal_size = '128MB'")
        await admin.execute("SELECT pg_reload_conf()")
        await admin.close()
        async with chosen_pooler(request.config, server, tmp_path_factory):
            yield server
        await server.close()


@pytest.fixture(scope="session")
async def templates(postgres: EmbeddedPostgres) -> dict[str, str]:
    """Migrated once; every test gets copies, which takes a tenth of the time."""
    admin = await asyncpg.connect(postgres.dsn("postgres"))
    names = {"central": "template_central", "pool_1": "template_pool_1", "pool_2": "template_pool_2"}
    try:
        for name, template in names.items():
            await admin.execute(f'CREATE DATABASE "{template}" TEMPLATE template0')
            await migrate(postgres.dsn(template), "central" if name == "central" else "pool", name)
    finally:
        await admin.close()
    return names


@pytest.fixture(scope="session")
async def _pair_files(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[PairFiles]:
    with quick_directory(tmp_path_factory.mktemp("pairs")) as directory:
        files = PairFiles(directory)
        await files.prepare()
        yield files


@pytest.fixture
async def pair(_pair_files: PairFiles) -> AsyncIterator[Pair]:
    """A primary and its standby, with central and pool_1."""
    async with _pair_files.copied() as pair:
        yield pair


@pytest.fixture
async def settings(postgres: EmbeddedPostgres, templates: dict[str, str], tmp_path: Path) -> AsyncIterator[Settings]:
    """An installation of its own, with two pools."""
    async with installation(postgres, templates, tmp_path / "home") as settings:
        yield settings


@pytest.fixture
async def databases(settings: Settings) -> AsyncIterator[Databases]:
    opened = await open_databases(settings)
    yield opened
    await opened.close()


@pytest.fixture
async def plane(settings: Settings) -> AsyncIterator[ControlPlane]:
    """A control plane that serves real HTTP at `plane.settings.public_url`."""
    async with running_control_plane(settings) as plane:
        yield plane


@pytest.fixture
async def client(plane: ControlPlane) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=plane.settings.public_url, trust_env=False, timeout=30) as client:
        yield client


@pytest.fixture
def people(plane: ControlPlane) -> People:
    return People(plane.rooms.identity.accounts, plane.rooms.identity.keys)


@pytest.fixture(scope="session")
async def shared_settings(
    postgres: EmbeddedPostgres, templates: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Settings]:
    """One installation for all tests that write rows and nothing else: emptying it takes a twentieth of making one."""
    directory = tmp_path_factory.mktemp("shared")
    async with isolated_installation(postgres, templates, directory) as settings:
        yield settings


@pytest.fixture(scope="session")
async def _shared_databases(shared_settings: Settings) -> AsyncIterator[Databases]:
    opened = await open_databases(shared_settings)
    yield opened
    await opened.close()


@pytest.fixture
async def shared_databases(_shared_databases: Databases) -> Databases:
    """Its databases, empty."""
    await empty(_shared_databases)
    return _shared_databases


@pytest.fixture
async def core(shared_databases: Databases) -> Core:
    """The core without HTTP and without loops: nothing happens that the test does not do."""
    return await open_core(shared_databases).prepare()


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A real S3 server with one empty bucket."""
    with seaweedfs(tmp_path_factory.mktemp("seaweedfs")) as server:
        server.create_bucket(BUCKET)
        yield server


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    """Everything that is logged, at the level debug, as JSON lines."""
    root, before = logging.getLogger(), structlog.get_config()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    configure_logs("debug", "json", stream)
    yield stream
    root.handlers[:], root.level = handlers, level
    logging.captureWarnings(False)
    structlog.configure(**before)
