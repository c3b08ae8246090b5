"""Scales fleets by their queues: a pure policy, drivers that start and end workers, and the autoscaler."""
