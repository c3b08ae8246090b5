"""The queue: central rows only. Lease, heartbeat, requeue, close, limits, order. It knows nothing of jobs."""
