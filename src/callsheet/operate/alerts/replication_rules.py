"""Alerts about the standbys of databases: those that are gone, and those that are behind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from callsheet.plumbing.database.servers.replication import Replication, Standby
from callsheet.plumbing.database.servers.replication_watch import WatchedServer
from callsheet.wire.operate.operations import Alert
from callsheet.wire.plurals import choose, counted

LAG_SECONDS = 60.0


def replication_alerts(servers: Iterable[WatchedServer], lag_seconds: float) -> Iterator[Alert]:
    for server in servers:
        subject, found = ", ".join(server.databases), server.replication
        if found.writes_wait:
            yield _writes_wait(subject, found)
        elif len(found.standbys) < server.known_standbys and server.gone_seconds > lag_seconds:
            yield _fewer(subject, server)
        if found.view is not None and found.view.unused_slots:
            yield _unused_slots(subject, found.view.unused_slots)
        behind = [each for each in found.standbys if (each.lag_seconds or 0.0) > lag_seconds]
        if behind:
            yield _behind(subject, behind)


def _writes_wait(subject: str, found: Replication) -> Alert:
    return Alert(
        code="standby_gone",
        severity="critical",
        subject=subject,
        message=f"Every write to {subject} waits: synchronous_standby_names needs "
        f"{counted(found.needed_standbys, 'standby', 'standbys')}, and "
        f"{counted(found.confirming_standbys, 'is', 'are')} connected. Requests get 503, and no job is accepted.",
        action="Start the standby. Or give up the promise that a failover loses nothing, on the primary: ALTER SYSTEM "
        "SET synchronous_standby_names = ''; SELECT pg_reload_conf();",
    )


def _fewer(subject: str, server: WatchedServer) -> Alert:
    number = len(server.replication.standbys)
    return Alert(
        code="standby_gone",
        severity="warning",
        subject=subject,
        message=f"The server of {subject} has {counted(number, 'standby', 'standbys')} now, and had "
        f"{server.known_standbys} within the last day.",
        action="Start the standby that is missing. If you removed it, do nothing: the alert ends a day later.",
    )


def _unused_slots(subject: str, slots: Sequence[str]) -> Alert:
    names = ", ".join(slots)
    return Alert(
        code="standby_gone",
        severity="warning",
        subject=f"{subject}: {names}",
        message=f"No standby uses the replication {choose(len(slots), 'slot', 'slots')} {names} of {subject}. "
        "PostgreSQL keeps its log for it until the disk is full.",
        action="Start the standby. If it does not return, remove the slot on the primary: SELECT "
        f"pg_drop_replication_slot('{slots[0]}');",
    )


def _behind(subject: str, standbys: Sequence[Standby]) -> Alert:
    shown = ", ".join(f"{each.label} by {each.lag_seconds or 0:.0f} s" for each in standbys)
    return Alert(
        code="standby_behind",
        severity="warning",
        subject=subject,
        message=f"{choose(len(standbys), 'A standby', 'Standbys')} of {subject} "
        f"{choose(len(standbys), 'is', 'are')} behind: {shown}. A failover would take as long, and without synchronous "
        "replication it may lose the changes of this time.",
        action="Look at the network and the disk of the standby, and for a query on it that holds up the replay.",
    )
