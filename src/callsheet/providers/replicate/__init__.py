"""Replicate: predictions that call back when they have ended."""
