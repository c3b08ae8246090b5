"""Errors of an execution, for every kind of provider: an engine beside a worker, an HTTP service, or an actor of a
task.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# A longer id of a run at a provider would refuse the whole report.
MAX_KEPT_ID_LENGTH = 200


class ProviderError(Exception):
    """An execution failed. Users read only the sentence of `type` (`wire/job_errors.py`); everything else is for
    operators.
    """

    def __init__(
        self,
        type: str,
        message: str,
        *,
        retryable: bool = False,
        details: Mapping[str, Any] | None = None,
        traceback: str | None = None,
    ):
        super().__init__(message)
        self.type = type
        self.message = message
        self.retryable = retryable
        self.details = dict(details or {})
        self.traceback = traceback


class ProviderUnavailable(ProviderError):
    """The provider did not respond, or returned 429 or 5xx: a later attempt may succeed. Counts in its circuit
    breaker.
    """

    TYPE = "provider_unavailable"

    def __init__(self, provider: str, message: str, **details: Any):
        super().__init__(self.TYPE, message, retryable=True, details={"provider": provider, **details})
