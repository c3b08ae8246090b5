"""Tenants, users, API keys, browser sessions and roles."""
