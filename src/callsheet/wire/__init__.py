"""What control plane, worker and client say to each other: models and error codes. No I/O."""
