"""Servers of PostgreSQL: the hosts of a DSN, the primary among them, its pulse and its standbys, and poolers."""
