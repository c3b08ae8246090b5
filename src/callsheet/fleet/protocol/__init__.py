"""The worker protocol: poll, heartbeat and reports, and what is checked in them."""
