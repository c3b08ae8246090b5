"""Runs: the scheduler that starts jobs, the collector that takes their results, and the rules of both."""
