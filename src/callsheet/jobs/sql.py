"""The SQL statements of this room, loaded once. Rooms above use those that read jobs."""

from __future__ import annotations

from callsheet.plumbing.database.sql import statements

SQL = statements("callsheet.jobs")
ADMIN_SQL = statements("callsheet.jobs", "admin_statements.sql")
BACKFILL_SQL = statements("callsheet.jobs", "backfill_statements.sql")
EFFECT_SQL = statements("callsheet.jobs", "effect_statements.sql")
PROVIDER_CALL_SQL = statements("callsheet.jobs", "provider_call_statements.sql")
PROGRESS_SQL = statements("callsheet.jobs", "progress_statements.sql")
RECONCILE_SQL = statements("callsheet.jobs", "reconcile_statements.sql")
RETENTION_SQL = statements("callsheet.jobs", "retention_statements.sql")
TRANSITION_SQL = statements("callsheet.jobs", "transition_statements.sql")
WATERFALL_SQL = statements("callsheet.jobs", "waterfall_statements.sql")
