"""The task worker: runs actors instead of an engine."""
