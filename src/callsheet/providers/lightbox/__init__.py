"""Lightbox as a provider of media tasks: an engine that the process of the task talks to."""
