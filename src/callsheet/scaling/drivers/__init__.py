"""The drivers by name."""
