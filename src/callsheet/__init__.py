"""Callsheet: a self-hosted control plane for generative-media jobs."""

__version__ = "0.1.0"
