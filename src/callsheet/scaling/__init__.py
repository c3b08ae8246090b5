"""Fleets that follow their queues: a pure policy, drivers that start and end workers, and the autoscaler."""
