"""The worker registry and protocol, fleets, the workers' audit log, and metrics."""
