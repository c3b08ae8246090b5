"""The messages of the worker protocol."""
