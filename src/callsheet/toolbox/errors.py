"""Errors that an operator must correct. The operator sees one sentence, without a traceback."""

from __future__ import annotations


class OperatorError(Exception):
    """The message contains what is wrong and what to do."""


def how_to_install(extras: str) -> str:
    """A command for people who lack the named extras, for example `server` or `server,lightbox`."""
    return f"in a clone of Callsheet run pip install '.[{extras}]'"
