"""What stops a command: shown to the operator as one sentence, without a traceback."""

from __future__ import annotations


class OperatorError(Exception):
    """The message says what is wrong and what to do about it."""
