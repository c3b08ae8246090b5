"""Reads the replication of a primary: whether commits wait for a standby, and how far each standby is behind."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import asyncpg

from callsheet.plumbing.database.sql import Connection, statements

SQL = statements("callsheet.plumbing.database.servers", "replication_statements.sql")

# `ANY 2 (a, b)`, `FIRST 2 (a, b)` or `2 (a, b)`. Without a number, one standby is enough.
NUMBER = re.compile(r"\s*(?:(?:ANY|FIRST)\s+)?(\d+)\s*\(", re.IGNORECASE)


class ReplicationServer(NamedTuple):
    synchronous_names: str
    # The setting synchronous_commit of our role.
    commits_wait_for: str
    started_at: datetime
    now: datetime


class ServerView(NamedTuple):
    """What our role sees of the standbys."""

    shows_state: bool
    role: str
    # Physical replication slots that no standby uses.
    unused_slots: Sequence[str]


class Standby(NamedTuple):
    pid: int
    name: str
    address: str | None
    # None if our role may not see it.
    is_synchronous: bool | None
    lag_bytes: int | None
    # Also None if the standby has not reported it yet.
    lag_seconds: float | None

    @property
    def label(self) -> str:
        return self.name if self.address is None else f"{self.name} at {self.address}"


class StandbyRow(NamedTuple):
    server: ReplicationServer
    view: ServerView
    standby: Standby | None


class ClosedRow(NamedTuple):
    server: ReplicationServer


class Replication(NamedTuple):
    """The replication of the server of one database. `clock_offset_seconds`: how far its clock is ahead of this
    machine's.
    """

    server: ReplicationServer
    # None if the server does not show its standbys.
    view: ServerView | None
    standbys: Sequence[Standby]
    clock_offset_seconds: float

    @property
    def is_synchronous(self) -> bool:
        """Whether a commit waits until a standby has it."""
        return bool(self.server.synchronous_names.strip()) and self.server.commits_wait_for not in ("local", "off")

    @property
    def needed_standbys(self) -> int:
        """The number of standbys that a commit waits for."""
        if not self.is_synchronous:
            return 0
        number = NUMBER.match(self.server.synchronous_names)
        return int(number[1]) if number else 1

    @property
    def confirming_standbys(self) -> int:
        """The number of connected standbys that a commit may wait for. Unknown ones are counted."""
        return sum(standby.is_synchronous is not False for standby in self.standbys)

    @property
    def writes_wait(self) -> bool:
        """Whether every write waits, because too few standbys are connected."""
        return self.view is not None and self.confirming_standbys < self.needed_standbys


async def read_replication(connection: Connection) -> Replication:
    started_at = time.time()
    try:
        rows = await SQL["read_replication"].rows(connection, StandbyRow)
    except (
        asyncpg.InsufficientPrivilegeError,
        asyncpg.UndefinedFunctionError,
        asyncpg.FeatureNotSupportedError,
        asyncpg.ObjectNotInPrerequisiteStateError,
    ):
        # Services that replicate below PostgreSQL have no log position, or keep it to themselves.
        started_at = time.time()
        [closed] = await SQL["read_closed_replication"].rows(connection, ClosedRow)
        return Replication(closed.server, None, (), _offset(closed.server, started_at))
    [first, *_] = rows
    standbys = [row.standby for row in rows if row.standby is not None]
    return Replication(first.server, first.view, standbys, _offset(first.server, started_at))


def by_server(found: Mapping[str, Replication]) -> list[tuple[Sequence[str], Replication]]:
    """One entry for each server, with the names of its databases. Pure."""
    servers: dict[datetime, tuple[list[str], Replication]] = {}
    for database, replication in found.items():
        names, _ = servers.setdefault(replication.server.started_at, ([], replication))
        names.append(database)
    return list(servers.values())


def _offset(server: ReplicationServer, started_at: float) -> float:
    return server.now.timestamp() - (started_at + time.time()) / 2
