"""Leases: which rows the next workers get, and the limits and lanes that they depend on."""
