"""Code for every process, without a database: logs, clock, ids, loops, guarded HTTP client and signing."""
