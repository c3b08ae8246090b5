"""Workflows, effects and their properties, and the payloads of their jobs."""
