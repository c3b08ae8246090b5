"""Who sends a request and what they may do: keys, sessions, passwords and permissions."""
