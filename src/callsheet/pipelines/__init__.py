"""Pipelines, runs, steps, candidates and votes, and the loops that run them."""
