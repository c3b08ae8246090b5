"""Fleets: their workflows, their tokens, their capacity, and which workers get whose jobs."""
