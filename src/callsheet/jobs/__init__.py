"""The state machine and every use case that spans both databases; events and streams."""
