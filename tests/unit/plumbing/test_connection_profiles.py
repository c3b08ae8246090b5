"""Lists and sweeps run on ordinary connections, so that the plans of hot statements are not forced on them."""

from __future__ import annotations

import re

from tests.support.database.connection_profiles import PACKAGE, hot_uses

LIST_OR_SWEEP = re.compile(r"(list|sweep|delete_old)_")
# These run on a hot connection, or on the connection of their caller. Each reads or deletes a few rows by key.
ALLOWED = {
    # The caller has an ordinary connection.
    "dispatch": {"list_finished", "list_queue"},
    # A connection of a command, which plans as an ordinary one, reads the tenants of a pool.
    "operate": {"delete_old_steps", "delete_old_messages", "list_tenants"},
    # The transaction of a change, which shows or cleans up what it changed; lists call the same function.
    "fleet": {"list_fleets", "list_fleet_tokens"},
    "scaling": {"list_decisions", "list_scaled"},
    "wallet": {"delete_old_audits"},
    # On an ordinary connection, PostgreSQL reads all runs of the tenant.
    "pipelines": {"list_active_runs"},
    # One row for each pool.
    "plumbing": {"list_pools"},
}


def test_lists_and_sweeps_run_on_ordinary_connections() -> None:
    uses = [(room, name) for room, name in hot_uses() if LIST_OR_SWEEP.match(name)]
    assert [f"{room}: {name}" for room, name in uses if name not in ALLOWED.get(room, set())] == []
    # No entry is left after its statement moved.
    assert {(room, name) for room, names in ALLOWED.items() for name in names} <= set(uses)


# Each of these shows operators what may be half a minute old. Nothing that a user, a worker, a wallet or a decision
# depends on may be added.
READS_REPLICAS = {
    "dispatch/operate/lists.py",
    "identity/audit_log.py",
    "operate/all_jobs/errors.py",
    "operate/all_jobs/lists.py",
    "operate/statistics/series.py",
    "operate/statistics/spend.py",
}


def test_only_lists_and_charts_of_operators_read_replicas() -> None:
    found = {path.relative_to(PACKAGE).as_posix(): path.read_text("utf-8") for path in PACKAGE.rglob("*.py")}
    assert {path for path, source in found.items() if ".reports()" in source} == READS_REPLICAS
    # No other way leads to the connections of a replica.
    assert {path for path, source in found.items() if "replica.connection()" in source} == {
        "plumbing/database/database.py"
    }
