"""Lists and charts of operators may read a replica: which data it has, when the primary is read instead, and that
nothing else reaches it. On a real primary and its standby."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import asyncpg
import pytest
from pydantic import SecretStr

from callsheet.app.rooms import Rooms
from callsheet.dispatch.operate.lists import DispatchLists
from callsheet.identity.audit_log import AuditLog
from callsheet.operate.all_jobs.errors import ErrorRange
from callsheet.operate.installation.replication import replica_finding, replica_report, replica_state
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.databases import Databases, open_databases, replica_dsn_of
from callsheet.plumbing.database.servers import replica as replicas
from callsheet.settings import Settings, load_settings
from callsheet.wire.errors import NotFound
from callsheet.wire.operate.all_jobs import JobFilter
from callsheet.wire.operate.audit import AuditFilter
from callsheet.wire.operate.operations import DispatchFilter
from tests.support.database.replication import Pair
from tests.support.jobs.core import open_core
from tests.support.waiting import until


@pytest.fixture(autouse=True)
def _without_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica that could not be read is asked again at the next use."""
    monkeypatch.setattr(replicas, "RETRY_SECONDS", 0.0)


def settings_of(pair: Pair, home: Path, **database: object) -> Settings:
    home.mkdir(0o700, exist_ok=True)
    dsns = {"dsn": pair.dsn("central"), "replica_dsn": pair.standby.dsn("central")}
    return load_settings(home=home, database={**dsns, "connections": 5, **database})


@asynccontextmanager
async def central_of(settings: Settings) -> AsyncIterator[Database]:
    """Only central, without its pools."""
    assert settings.database.dsn is not None
    central = Database("central", "central", settings.database.dsn.get_secret_value(), settings.database)
    if (replica_dsn := replica_dsn_of(settings)) is not None:
        central.replica = replicas.Replica("central", replica_dsn, settings.database, central.ordinary)
    await central.open()
    try:
        yield central
    finally:
        await central.close()


async def port_read(database: Database) -> int:
    """The port of the server that a report is read from."""
    async with database.reports() as connection:
        return int(await connection.fetchval("SELECT inet_server_port()"))


async def reads_the_replica(database: Database, pair: Pair) -> None:
    """Waits until it is read: it must have something that the primary wrote since its start."""

    async def is_read() -> bool:
        return await port_read(database) == pair.standby.port

    await until(is_read)


def problem(database: Database) -> str:
    assert database.replica is not None
    return database.replica.state.problem or ""


async def test_reports_read_the_replica_and_only_they_do(pair: Pair, tmp_path: Path) -> None:
    await pair.replicated()
    async with central_of(settings_of(pair, tmp_path / "home")) as central:
        await reads_the_replica(central, pair)
        for other in (central.ordinary(), central.connection(), central.transaction()):
            async with other as connection:
                assert await connection.fetchval("SELECT inet_server_port()") == pair.primary.port
        assert central.replica is not None
        assert central.replica.state.problem is None
        assert 0 <= (central.replica.state.lag_seconds or 0) <= 30


async def test_a_write_through_a_report_is_refused_by_every_server(pair: Pair, tmp_path: Path) -> None:
    write = "UPDATE alert_checks SET started_at = '-infinity'"
    for settings in (settings_of(pair, tmp_path / "home"), settings_of(pair, tmp_path / "home", replica_dsn=None)):
        async with central_of(settings) as central:
            with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
                async with central.reports() as connection:
                    await connection.execute(write)
            async with central.ordinary() as connection:
                await connection.execute(write)


@pytest.mark.thorough
async def test_the_primary_is_read_while_the_replica_is_too_old(pair: Pair, tmp_path: Path) -> None:
    async with central_of(settings_of(pair, tmp_path / "home", replica_lag_seconds=0.5)) as central:
        await pair.primary.value("CREATE TABLE written (id bigint)", "central")
        await pair.replicated()
        await pair.standby.value("SELECT pg_wal_replay_pause()")
        await pair.primary.value("INSERT INTO written VALUES (1)", "central")

        async def is_too_old() -> bool:
            return await port_read(central) == pair.primary.port and "behind, more than 0.5 s" in problem(central)

        await until(is_too_old)
        async with central.reports() as connection:
            assert await connection.fetchval("SELECT count(*) FROM written") == 1
        await pair.standby.value("SELECT pg_wal_replay_resume()")

        async def is_read_again() -> bool:
            # It has what the primary had written a moment before.
            assert central.replica is not None
            central.replica._position_at = float("-inf")
            return await port_read(central) == pair.standby.port

        await until(is_read_again)
        assert problem(central) == ""


@pytest.mark.thorough
async def test_the_primary_is_read_if_the_replica_is_away_and_the_replica_when_it_is_back(
    pair: Pair, tmp_path: Path
) -> None:
    async with central_of(settings_of(pair, tmp_path / "home")) as central:
        await reads_the_replica(central, pair)
        await pair.standby.kill()
        assert await port_read(central) == pair.primary.port
        assert problem(central) != ""
        await pair.standby.start()
        await pair.replicated()
        await reads_the_replica(central, pair)


@pytest.mark.thorough
async def test_a_replica_that_is_away_is_not_asked_for_each_list(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with central_of(settings_of(pair, tmp_path / "home")) as central:
        await pair.standby.stop()
        monkeypatch.setattr(replicas, "RETRY_SECONDS", 1000.0)
        assert await port_read(central) == pair.primary.port
        await pair.standby.start()
        assert await port_read(central) == pair.primary.port


@pytest.mark.thorough
async def test_a_promoted_replica_is_not_read(pair: Pair, tmp_path: Path) -> None:
    # The DSN names the primary alone: nothing else notices the promotion.
    async with central_of(settings_of(pair, tmp_path / "home", dsn=pair.primary.dsn("central"))) as central:
        await reads_the_replica(central, pair)
        await pair.standby.promote()
        assert await port_read(central) == pair.primary.port
        assert "is not a standby" in problem(central)


@pytest.mark.thorough
@pytest.mark.parametrize("wrong", ["the primary", "another database", "no server", "no DSN"])
async def test_a_wrong_dsn_of_the_replica_is_a_warning_and_shows_no_other_data(
    pair: Pair, tmp_path: Path, wrong: str
) -> None:
    password = "secret/with/a/slash"
    dsn, reason = {
        "the primary": (pair.primary.dsn("central"), "is not a standby"),
        "another database": (pair.standby.dsn("pool_1"), "names another database"),
        "no server": ("postgresql://callsheet@127.0.0.1:1/central", ""),
        "no DSN": (f"postgresql://callsheet:{password}@127.0.0.1/central", ""),
    }[wrong]
    settings = settings_of(pair, tmp_path / "home", replica_dsn=dsn)
    async with central_of(settings) as central:
        assert await port_read(central) == pair.primary.port
        assert reason in problem(central)
        assert password not in problem(central)
    state = await replica_state(settings, "central", pair.dsn("central"), dsn)
    assert state is not None
    finding = replica_finding("central", state)
    assert (finding.part, finding.status) == ("replica", "warning")
    assert finding.message.startswith("central: lists and charts of operators are read from the primary, because ")
    assert "replica_dsn" in finding.advice


async def test_doctor_and_status_show_the_lag(pair: Pair, tmp_path: Path) -> None:
    await pair.replicated()
    settings = settings_of(pair, tmp_path / "home")
    state = await replica_state(settings, "central", pair.dsn("central"), replica_dsn_of(settings))
    assert state is not None
    assert replica_finding("central", state).status == "ok"
    report = replica_report(state)
    assert report is not None
    assert report["shown"].startswith("are read from the replica, which is at most ")
    assert (report["problem"], type(report["lag_seconds"])) == (None, float)
    assert await replica_state(settings, "central", pair.dsn("central"), None) is None


def test_pools_on_the_server_of_central_have_their_replica_there(pair: Pair, tmp_path: Path) -> None:
    settings = settings_of(pair, tmp_path / "home", pool_replica_dsns={"pool_9": "postgresql://db9/nine"})
    assert isinstance(settings.database.pool_replica_dsns["pool_9"], SecretStr)
    assert replica_dsn_of(settings, "pool_1", "pool_1") == pair.standby.dsn("pool_1")
    assert replica_dsn_of(settings, "pool_2") is None
    assert replica_dsn_of(settings, "pool_9") == "postgresql://db9/nine"


async def read_all_lists(settings: Settings, databases: Databases) -> int:
    """Reads each kind of list and chart. Returns the number of jobs."""
    rooms = Rooms(settings, databases, lambda: b"signs nothing")
    try:
        await DispatchLists(databases.central).list(DispatchFilter(), None, 10)
        await rooms.statistics.series.read("1h", None)
        await rooms.statistics.series.of_worker("worker-1")
        await rooms.statistics.spend.read()
        await AuditLog(databases).list(AuditFilter(), None, 10)
        await rooms.all_jobs.errors.groups(ErrorRange(datetime.now(UTC), datetime.now(UTC), None, []), 10)
        resolved = await rooms.all_jobs.names.resolve(JobFilter(), searches_texts=False)
        with pytest.raises(NotFound):
            await rooms.all_jobs.errors.group("no such error")
        with pytest.raises(NotFound):
            await rooms.all_jobs.errors.of_job(uuid4())
        return (await rooms.all_jobs.jobs.totals(resolved)).jobs
    finally:
        await rooms.close()


async def test_no_other_statement_of_a_job_s_life_reaches_the_replica(pair: Pair, tmp_path: Path) -> None:
    # The DSN names the primary alone, because each new connection asks all servers of a DSN for their role.
    settings = settings_of(pair, tmp_path / "home", dsn=pair.primary.dsn("central"))
    databases = await open_databases(settings)
    try:
        core = await open_core(databases).prepare()
        await pair.replicated()
        for name, value in {"log_line_prefix": "'from:%a '", "log_statement": "'all'"}.items():
            await pair.standby.set(name, value)
        ann = await core.member("pool_1")
        job = await core.submit(ann)
        await core.complete(await core.start())
        await core.submit(ann, idempotency_key="order-1")
        await core.submit(ann, idempotency_key="order-1")
        await core.drain()
        await core.check()
        assert await core.status(ann, job.id) == "completed"
        assert programs(pair) == set()
        await pair.replicated()
        assert await read_all_lists(settings, databases) == 2
        assert programs(pair) == {replicas.APPLICATION_NAME}
    finally:
        await databases.close()


def programs(pair: Pair) -> set[str]:
    """The programs whose statements are in the standby's log, apart from the test."""
    lines = pair.standby.data.with_suffix(".log").read_text().splitlines()
    statements = [
        line.removeprefix("from:") for line in lines if line.startswith("from:callsheet") and " LOG: " in line
    ]
    return {line.partition(" LOG: ")[0].strip() for line in statements}


@pytest.mark.thorough
async def test_a_silent_replica_is_waited_for_once_and_not_long(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with central_of(settings_of(pair, tmp_path / "home")) as central:
        await reads_the_replica(central, pair)
        pair.standby.freeze()
        monkeypatch.setattr(replicas, "CONNECT_SECONDS", 0.2)
        monkeypatch.setattr(replicas, "RETRY_SECONDS", 1000.0)
        # Each list alone would wait for the 35 seconds of a statement.
        async with asyncio.timeout(60):
            for _ in range(5):
                assert await port_read(central) == pair.primary.port
