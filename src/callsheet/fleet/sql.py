"""The SQL statements of the room, one file for each group of use cases."""

from __future__ import annotations

from callsheet.plumbing.database.sql import statements

PROTOCOL_SQL = statements("callsheet.fleet", "protocol_statements.sql")
LOG_SQL = statements("callsheet.fleet", "log_statements.sql")
REGISTRATION_SQL = statements("callsheet.fleet", "registration_statements.sql")
WORKER_SQL = statements("callsheet.fleet", "worker_statements.sql")
DRAIN_SQL = statements("callsheet.fleet", "drain_statements.sql")
SWEEP_SQL = statements("callsheet.fleet", "sweep_statements.sql")
FLEET_SQL = statements("callsheet.fleet", "fleet_statements.sql")
CAPACITY_SQL = statements("callsheet.fleet", "capacity_statements.sql")
OVERVIEW_SQL = statements("callsheet.fleet", "overview_statements.sql")
