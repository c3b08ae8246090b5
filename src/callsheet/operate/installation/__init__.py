"""Operators' views of the whole installation: its health, its settings, and figures of tenants."""
