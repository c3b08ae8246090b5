"""The messages between control plane, worker and client: models and error codes. No I/O."""
