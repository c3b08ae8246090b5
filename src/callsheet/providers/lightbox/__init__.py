"""Lightbox as a provider of media tasks: the process of the task calls the engine."""
