"""The state machine of jobs, every use case that changes both databases, and the events and streams of jobs."""
