"""Workflows, effects and their properties; building a job's payload."""
