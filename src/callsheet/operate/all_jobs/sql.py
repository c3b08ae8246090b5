"""The SQL statements of this room, loaded once. Only modules of this room use them."""

from __future__ import annotations

from callsheet.plumbing.database.sql import statements

SQL = statements("callsheet.operate.all_jobs")
CENTRAL_SQL = statements("callsheet.operate.all_jobs", "central_statements.sql")
BULK_SQL = statements("callsheet.operate.all_jobs", "bulk_statements.sql")
BULK_POOL_SQL = statements("callsheet.operate.all_jobs", "bulk_pool_statements.sql")
