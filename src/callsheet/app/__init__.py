"""The composition root: opens every room, and serves them over HTTP."""
