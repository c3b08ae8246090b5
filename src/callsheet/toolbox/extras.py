"""Explains how to install a missing extra. The package is not on PyPI: people install from a clone or from a wheel."""

from __future__ import annotations


def how_to_install(extras: str) -> str:
    """A command for people who lack the named extras, for example `server` or `server,lightbox`."""
    return f"in a clone of Callsheet run pip install '.[{extras}]'"
