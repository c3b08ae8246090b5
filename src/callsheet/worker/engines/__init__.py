"""The engines of an agent: their processes, their health, and what they can run."""
