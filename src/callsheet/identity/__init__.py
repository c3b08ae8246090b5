"""Tenants, users, API keys, browser sessions, roles."""
