"""Changes of jobs by their users: cancel, retry and delete."""
