"""An error that ends a command. The operator sees one sentence, without a traceback."""

from __future__ import annotations


class OperatorError(Exception):
    """The message contains what is wrong and what to do."""
