"""Pipelines, runs, steps, candidates, votes, and the loop that runs them."""
