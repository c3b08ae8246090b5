"""The queue: central rows only. Lease, heartbeat, put back, close, limits, order. It returns facts and knows no job."""
