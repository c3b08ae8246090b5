"""Live events of jobs: feeds, and the streams that clients read."""
