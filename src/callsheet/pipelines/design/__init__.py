"""Pipelines as users design them: steps, versions, templates, and the workflows that steps can use."""
