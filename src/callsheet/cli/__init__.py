"""The `callsheet` command."""
