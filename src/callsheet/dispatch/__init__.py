"""The queue of dispatches in central: lease, heartbeat, requeue, close, limits and order. It knows nothing about
jobs.
"""
