"""Reads the replication of each database every few seconds, for alerts and metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from callsheet.plumbing.database.database import connected
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.errors import CANNOT_CONNECT, DatabaseError
from callsheet.plumbing.database.servers.replica import ReplicaState
from callsheet.plumbing.database.servers.replication import Replication, by_server, read_replication
from callsheet.toolbox.clock import Clock
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.loops import Loop

log = get_logger(__name__)
READ_SECONDS = 10.0
# After this time, fewer standbys than before are what the operator wants.
REMEMBERED_SECONDS = 86_400.0


class WatchedServer(NamedTuple):
    """A server, and how many standbys it had. `gone_seconds`: the time since it had that many."""

    databases: Sequence[str]
    replication: Replication
    known_standbys: int
    gone_seconds: float


class ReplicationWatch(Loop):
    """Has connections of its own: while every write waits for a standby, the others are in use."""

    name = "replication_watch"
    interval_seconds = 10.0

    def __init__(self, databases: Databases, clock: Clock | None = None):
        super().__init__(clock=clock)
        self._databases = databases
        self._found: Mapping[str, Replication] = {}
        # For each database: the number of standbys, and when it last had as many (monotonic seconds).
        self._known: dict[str, tuple[int, float]] = {}
        self._waiting: frozenset[str] = frozenset()

    @property
    def replicas(self) -> Mapping[str, ReplicaState]:
        """The replicas at their last use, by database."""
        return {each.name: each.replica.state for each in self._databases.all if each.replica is not None}

    @property
    def servers(self) -> list[WatchedServer]:
        """The servers at the last reading, without those that could not be read."""
        return [self._watched(databases, replication) for databases, replication in by_server(self._found)]

    async def tick(self, now: datetime) -> None:
        databases = {each.name: each.dsn for each in self._databases.all}
        read = await asyncio.gather(*(self._read(dsn, name) for name, dsn in databases.items()))
        self._found = {name: found for name, found in zip(databases, read, strict=True) if found is not None}
        for name, found in self._found.items():
            number, at = self._known.get(name, (0, 0.0))
            monotonic = self._clock.monotonic()
            if len(found.standbys) >= number or monotonic - at > REMEMBERED_SECONDS:
                self._known[name] = len(found.standbys), monotonic
        self._log()
        await asyncio.gather(*(each.replica.check() for each in self._databases.all if each.replica is not None))

    async def _read(self, dsn: str, name: str) -> Replication | None:
        try:
            async with asyncio.timeout(READ_SECONDS), connected(dsn, name) as connection:
                return await read_replication(connection)
        except (DatabaseError, *CANNOT_CONNECT):
            return None  # Others report that the database is away.

    def _watched(self, databases: Sequence[str], replication: Replication) -> WatchedServer:
        number, at = self._known[databases[0]]
        return WatchedServer(databases, replication, number, self._clock.monotonic() - at)

    def _log(self) -> None:
        """While every write waits, no alert can be written: the log and the metrics say it."""
        waiting = frozenset(name for name, found in self._found.items() if found.writes_wait)
        for name in sorted(waiting - self._waiting):
            log.error("database.writes_wait", database=name, reason="too few synchronous standbys are connected")
        for name in sorted((self._waiting - waiting) & self._found.keys()):
            log.info("database.writes_continue", database=name)
        self._waiting = waiting


class ReplicationMetrics(Collector):
    """The replication at the last reading."""

    def __init__(self, watch: ReplicationWatch):
        self._watch = watch

    def collect(self) -> Iterable[Metric]:
        standbys = GaugeMetricFamily(
            "callsheet_database_standbys",
            "Standbys that are connected to the server of a database.",
            labels=["database"],
        )
        lag = GaugeMetricFamily(
            "callsheet_database_standby_lag_seconds", "How far a standby is behind.", labels=["database", "standby"]
        )
        waiting = GaugeMetricFamily(
            "callsheet_database_writes_wait",
            "1 while every write waits because too few synchronous standbys are connected.",
            labels=["database"],
        )
        for server in self._watch.servers:
            for database in server.databases:
                standbys.add_metric([database], len(server.replication.standbys))
                waiting.add_metric([database], server.replication.writes_wait)
                for name, seconds in _lags(server.replication).items():
                    lag.add_metric([database, name], seconds)
        replica_lag = GaugeMetricFamily(
            "callsheet_database_replica_lag_seconds",
            "How old the data of a replica may be that lists and charts of operators are read from.",
            labels=["database"],
        )
        replica_read = GaugeMetricFamily(
            "callsheet_database_replica_read",
            "0 while the primary is read instead of the replica.",
            labels=["database"],
        )
        for database, state in self._watch.replicas.items():
            replica_read.add_metric([database], state.problem is None)
            if state.lag_seconds is not None:
                replica_lag.add_metric([database], state.lag_seconds)
        yield from (standbys, lag, waiting, replica_lag, replica_read)


def _lags(replication: Replication) -> dict[str, float]:
    """The lag by the name of the standby. Of several with one name, the greatest."""
    lags: dict[str, float] = {}
    for each in replication.standbys:
        if each.lag_seconds is not None:
            lags[each.label] = max(each.lag_seconds, lags.get(each.label, 0.0))
    return lags
