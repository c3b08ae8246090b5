"""Operators see whether a failover may lose accepted jobs, and which standbys are gone or behind, on real servers."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from callsheet.operate.alerts.rules import AlertFacts, alerts
from callsheet.operate.installation.replication import replication_findings, replication_report
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.pool_keeper import DatabaseRole
from callsheet.plumbing.database.servers.connecting import connect
from callsheet.plumbing.database.servers.replication import Replication, read_replication
from callsheet.plumbing.database.servers.replication_watch import ReplicationMetrics, ReplicationWatch
from callsheet.settings import Settings
from callsheet.settings.findings import SettingsFinding
from callsheet.toolbox.clock import ManualClock
from callsheet.wire.operate.operations import Alert
from tests.support.database.replication import Pair
from tests.support.waiting import until


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.model_validate({"home": tmp_path})


async def replication_of(pair: Pair, database: str = "central") -> Replication:
    connection = await connect(pair.dsn(database))
    try:
        return await read_replication(connection)
    finally:
        await connection.close()


async def has_all(pair: Pair) -> None:
    """Waits until the primary knows that its standby has everything."""

    async def is_known() -> bool:
        return [each.lag_bytes for each in (await replication_of(pair)).standbys] == [0]

    await until(is_known)


def findings(settings: Settings, found: Replication) -> list[SettingsFinding]:
    return list(replication_findings(settings, {"central": found, "pool_1": found}))


@pytest.mark.thorough
async def test_doctor_says_what_a_failover_loses_and_what_to_do_about_it(pair: Pair, settings: Settings) -> None:
    await has_all(pair)
    [finding] = findings(settings, await replication_of(pair))
    assert (finding.part, finding.status) == ("failover", "ok")
    assert finding.message.startswith("central, pool_1: 1 standby, not synchronous: two at 127.0.0.1 (")
    assert "a failover loses at most the changes that the standby had not received" in finding.message
    assert "the ledger audits clean" in finding.message
    assert "synchronous_standby_names" in finding.advice

    await pair.make_synchronous()
    [finding] = findings(settings, await replication_of(pair))
    assert (finding.status, finding.advice) == ("ok", "")
    assert "No accepted job is lost in a failover: each commit waits for 1 standby." in finding.message

    # Commits do not wait for it after all: our role does not ask for it.
    await pair.primary.value("ALTER ROLE callsheet SET synchronous_commit = local")
    assert not (await replication_of(pair)).is_synchronous
    await pair.primary.value("ALTER ROLE callsheet RESET synchronous_commit")

    await pair.standby.stop()
    [finding] = findings(settings, await replication_of(pair))
    assert finding.status == "problem"
    assert "Every write to central, pool_1 waits" in finding.message
    assert "ALTER SYSTEM SET synchronous_standby_names = ''" in finding.advice

    await pair.primary.set("synchronous_standby_names", "''")
    [finding] = findings(settings, await replication_of(pair))
    assert (finding.status, finding.advice) == ("ok", "")
    assert finding.message == "central, pool_1: no standby. No accepted job is lost while the server keeps its disk."


async def test_a_paused_standby_is_behind_and_one_that_left_its_slot_is_reported(
    pair: Pair, settings: Settings
) -> None:
    await pair.replicated()
    await pair.standby.value("SELECT pg_wal_replay_pause()")
    await pair.primary.value("CREATE TABLE written (id bigint)")

    async def is_behind() -> bool:
        await pair.primary.value("INSERT INTO written SELECT generate_series(1, 1000)")
        [standby] = (await replication_of(pair)).standbys
        return (standby.lag_bytes or 0) > 0 and (standby.lag_seconds or 0) > 0.05

    await until(is_behind)
    strict = settings.model_copy(
        update={"database": settings.database.model_copy(update={"standby_lag_seconds": 0.05})}
    )
    found = await replication_of(pair)
    [finding] = findings(strict, found)
    assert finding.status == "warning"
    assert finding.message.startswith("A standby of central, pool_1 is behind: two at 127.0.0.1 by ")
    assert [finding.status for finding in findings(settings, found)] == ["ok"]

    await pair.primary.value("SELECT pg_create_physical_replication_slot('lost_one')")
    [finding] = findings(settings, await replication_of(pair))
    assert finding.status == "warning"
    assert finding.message.startswith("No standby uses the replication slot lost_one of central, pool_1.")


@pytest.mark.thorough
async def test_a_role_that_may_not_see_the_state_gets_the_grant_to_run(pair: Pair, settings: Settings) -> None:
    await pair.primary.value("CREATE ROLE app LOGIN")
    dsn = pair.primary.dsn("central").replace("callsheet@", "app@")

    async def read() -> Replication:
        connection = await connect(dsn)
        try:
            return await read_replication(connection)
        finally:
            await connection.close()

    found = await read()
    assert [(each.name, each.lag_bytes) for each in found.standbys] == [("two", None)]
    [finding] = findings(settings, found)
    assert (finding.status, finding.advice) == (
        "ok",
        "To see how far standbys are behind, run there: GRANT pg_read_all_stats TO app",
    )
    await pair.primary.value("GRANT pg_read_all_stats TO app")
    assert (await read()).standbys[0].lag_bytes is not None
    # A service that keeps its replication to itself.
    await pair.primary.value("REVOKE EXECUTE ON FUNCTION pg_current_wal_lsn FROM public", "central")
    await pair.primary.value("REVOKE SELECT ON pg_stat_replication FROM public", "central")
    found = await read()
    assert (found.view, found.standbys, found.writes_wait) == (None, (), False)
    [finding] = findings(settings, found)
    assert finding.message.startswith("central, pool_1: the server does not show its standbys.")


async def test_the_report_shows_the_standby_and_the_clock(pair: Pair) -> None:
    await pair.make_synchronous()
    found = await replication_of(pair, "pool_1")
    # The servers write a little by themselves.
    standbys = [each._replace(lag_bytes=0, lag_seconds=0.0) for each in found.standbys]
    report = replication_report(found._replace(standbys=standbys))
    assert json.loads(json.dumps(report)) == {
        "shown": "1 standby, synchronous: two at 127.0.0.1 (0 bytes behind)",
        "is_synchronous": True,
        "synchronous_standby_names": "two",
        "writes_wait": False,
        "standbys": [{"name": "two", "address": "127.0.0.1", "is_synchronous": True, "lag_bytes": 0, "lag_seconds": 0}],
        "clock_offset_seconds": pytest.approx(0, abs=1),
    }


@asynccontextmanager
async def watched(pair: Pair, settings: Settings) -> AsyncIterator[tuple[ReplicationWatch, ManualClock]]:
    central = Database("central", "central", pair.dsn("central"), settings.database)
    databases = Databases(settings, central, None, role=DatabaseRole(migrates=False, holds_leases=False))
    clock = ManualClock()
    yield ReplicationWatch(databases, clock), clock


def raised(watch: ReplicationWatch) -> list[Alert]:
    return alerts(AlertFacts(database_servers=watch.servers))


def metrics(watch: ReplicationWatch) -> Mapping[str, float]:
    registry = CollectorRegistry()
    registry.register(ReplicationMetrics(watch))
    lines = [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


async def test_the_watch_raises_an_alert_while_every_write_waits(
    pair: Pair, settings: Settings, logged: io.StringIO
) -> None:
    await pair.make_synchronous()
    async with watched(pair, settings) as (watch, _):
        await watch.tick(datetime.now(UTC))
        assert raised(watch) == []
        assert metrics(watch)['callsheet_database_standbys{database="central"}'] == 1
        assert metrics(watch)['callsheet_database_writes_wait{database="central"}'] == 0
        await pair.standby.stop()
        await watch.tick(datetime.now(UTC))
        [alert] = raised(watch)
        assert (alert.code, alert.severity, alert.subject) == ("standby_gone", "critical", "central")
        assert metrics(watch)['callsheet_database_writes_wait{database="central"}'] == 1
        # A write really waits.
        writer = await asyncpg.connect(pair.primary.dsn("central"))
        with pytest.raises(TimeoutError):
            await writer.execute("CREATE TABLE waits (id bigint)", timeout=0.5)
        writer.terminate()
        await pair.standby.start()
        await until(lambda: pair.primary.value("SELECT count(*) = 1 FROM pg_stat_replication"))
        await watch.tick(datetime.now(UTC))
        assert raised(watch) == []
    events = [json.loads(line)["event"] for line in logged.getvalue().splitlines()]
    assert [event for event in events if event.startswith("database.writes")] == [
        "database.writes_wait",
        "database.writes_continue",
    ]


@pytest.mark.thorough
async def test_a_standby_that_was_there_is_missed_for_a_day(pair: Pair, settings: Settings) -> None:
    async with watched(pair, settings) as (watch, clock):
        await watch.tick(datetime.now(UTC))
        await pair.standby.stop()
        await watch.tick(datetime.now(UTC))
        assert raised(watch) == []  # It may only restart.
        clock.advance(61)
        await watch.tick(datetime.now(UTC))
        [alert] = raised(watch)
        assert (alert.code, alert.severity) == ("standby_gone", "warning")
        assert "has 0 standbys now, and had 1 within the last day" in alert.message
        clock.advance(86_400)
        await watch.tick(datetime.now(UTC))
        assert raised(watch) == []


@pytest.mark.thorough
async def test_a_database_that_cannot_be_read_raises_no_alert_of_its_own(pair: Pair, settings: Settings) -> None:
    async with watched(pair, settings) as (watch, _):
        await watch.tick(datetime.now(UTC))
        await pair.primary.kill()
        await watch.tick(datetime.now(UTC))
        assert (watch.servers, raised(watch), metrics(watch)) == ([], [], {})
