"""The queue: central rows only. Lease, heartbeat, put back, close, limits, order. Returns facts, knows no job."""
