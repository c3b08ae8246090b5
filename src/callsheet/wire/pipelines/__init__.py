"""The messages of pipelines, their editor, runs and candidates."""
