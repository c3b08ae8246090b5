"""What every process needs, without a database: logs, clock, ids, loops, guarded HTTP client, signing."""
