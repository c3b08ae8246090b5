"""What users do with their jobs: cancel, retry and delete."""
