"""Says for each server of databases what a failover would lose, for `callsheet doctor` and `callsheet db status`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from callsheet.operate.alerts.rules import AlertFacts, alerts
from callsheet.plumbing.database.database import connected
from callsheet.plumbing.database.databases import CENTRAL
from callsheet.plumbing.database.servers.replica import Replica, ReplicaState
from callsheet.plumbing.database.servers.replication import Replication, Standby, by_server
from callsheet.plumbing.database.servers.replication_watch import WatchedServer
from callsheet.settings import Settings
from callsheet.settings.findings import CLOCK_TOLERANCE_SECONDS, SettingsFinding, clock_finding
from callsheet.wire.plurals import counted

PART = "failover"


def replication_findings(settings: Settings, found: Mapping[str, Replication]) -> Iterator[SettingsFinding]:
    """One finding for each server, with the texts of the alerts. `found`: the replication by database. Pure."""
    for names, replication in by_server(found):
        server = WatchedServer(names, replication, len(replication.standbys), 0.0)
        facts = AlertFacts(database_servers=[server], standby_lag_seconds=settings.database.standby_lag_seconds)
        raised = alerts(facts)
        for alert in raised:
            is_critical = alert.severity == "critical"
            yield SettingsFinding(PART, "problem" if is_critical else "warning", alert.message, alert.action)
        if not raised:
            subject = ", ".join(names)
            message = f"{subject}: {standbys_text(replication)}. {_promise(replication)}"
            yield SettingsFinding(PART, "ok", message, _advice(replication))
        if CENTRAL not in names and abs(replication.clock_offset_seconds) > CLOCK_TOLERANCE_SECONDS:
            yield clock_finding(f"server of {', '.join(names)}", replication.clock_offset_seconds)


async def replica_state(settings: Settings, name: str, dsn: str, replica_dsn: str | None) -> ReplicaState | None:
    """Asks the replica of a database. None if it has none."""
    if replica_dsn is None:
        return None
    replica = Replica(name, replica_dsn, settings.database, partial(connected, dsn, name))
    try:
        return await replica.check()
    finally:
        await replica.close()


def replica_finding(name: str, state: ReplicaState) -> SettingsFinding:
    """Pure."""
    message = f"{name}: lists and charts of operators {replica_text(state)}."
    if state.problem is None:
        return SettingsFinding("replica", "ok", message)
    advice = "Start the standby, or correct database.replica_dsn or database.pool_replica_dsns."
    return SettingsFinding("replica", "warning", message, advice)


def replica_text(state: ReplicaState) -> str:
    """What is read. Pure."""
    if state.problem is None:
        return f"are read from the replica, which is at most {state.lag_seconds or 0:.1f} s behind"
    return f"are read from the primary, because the replica cannot be used: {state.problem}"


def replica_report(state: ReplicaState | None) -> dict[str, Any] | None:
    """For `callsheet db status`. Pure."""
    return None if state is None else {**state._asdict(), "shown": replica_text(state)}


def replication_report(found: Replication) -> dict[str, Any]:
    """For `callsheet db status`. Pure."""
    standbys = [
        {
            "name": each.name,
            "address": each.address,
            "is_synchronous": each.is_synchronous,
            "lag_bytes": each.lag_bytes,
            "lag_seconds": each.lag_seconds,
        }
        for each in found.standbys
    ]
    return {
        "shown": standbys_text(found),
        "is_synchronous": found.is_synchronous,
        "synchronous_standby_names": found.server.synchronous_names,
        "writes_wait": found.writes_wait,
        "standbys": standbys,
        "clock_offset_seconds": round(found.clock_offset_seconds, 3),
    }


def standbys_text(replication: Replication) -> str:
    """For people: `1 standby, synchronous: db2 at 10.0.0.2 (0 bytes behind)`. Pure."""
    if replication.view is None:
        return "the server does not show its standbys"
    if not replication.standbys:
        return "no standby"
    kind = "synchronous" if replication.is_synchronous else "not synchronous"
    standbys = ", ".join(map(_standby_text, replication.standbys))
    return f"{counted(len(replication.standbys), 'standby', 'standbys')}, {kind}: {standbys}"


def _standby_text(standby: Standby) -> str:
    if standby.lag_bytes is None:
        return standby.label
    behind = counted(standby.lag_bytes, "byte")
    if standby.lag_seconds:
        behind += f", {standby.lag_seconds:.1f} s"
    return f"{standby.label} ({behind} behind)"


def _promise(replication: Replication) -> str:
    """What a failover loses. docs/guarantees.md says the same."""
    if replication.is_synchronous:
        return (
            "No accepted job is lost in a failover: each commit waits for "
            f"{counted(replication.needed_standbys, 'standby', 'standbys')}."
        )
    if replication.view is not None and not replication.standbys:
        return "No accepted job is lost while the server keeps its disk."
    return (
        "Commits do not wait for a standby: a failover loses at most the changes that the standby had not received, "
        "and the ledger audits clean afterwards."
    )


def _advice(replication: Replication) -> str:
    if replication.view is not None and replication.standbys and not replication.view.shows_state:
        return f"To see how far standbys are behind, run there: GRANT pg_read_all_stats TO {replication.view.role}"
    if replication.standbys and not replication.is_synchronous:
        return "To lose nothing in a failover, set synchronous_standby_names on the primary."
    return ""
