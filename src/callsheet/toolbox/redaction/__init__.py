"""Removes secrets and internal information from texts that people read."""
