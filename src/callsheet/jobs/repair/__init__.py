"""Loops that end what is late and repair what differs between jobs and their dispatches."""
