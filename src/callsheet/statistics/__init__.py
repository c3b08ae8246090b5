"""Counted jobs and sampled queues and workers over time, for charts."""
