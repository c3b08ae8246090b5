"""Outgoing HTTP: a client that connects only to hosts that it may reach."""
