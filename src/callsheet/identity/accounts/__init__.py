"""Tenants and users: how they are created, changed, limited and deleted."""
