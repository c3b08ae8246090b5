"""Worker registry and protocol routes, fleets, audit log, metrics."""
