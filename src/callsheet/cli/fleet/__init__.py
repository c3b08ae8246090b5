"""Commands about fleets, scaling and workers, and the worker itself."""
