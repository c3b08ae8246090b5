"""Effects as jobs: submits an effect, makes its preview, and tests a workflow."""
