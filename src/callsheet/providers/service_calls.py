"""Calls the API of a service: JSON in and out. Every failure becomes an error with its meaning for a job."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

from callsheet.providers.errors import ProviderError, ProviderUnavailable
from callsheet.providers.http.templates import dug
from callsheet.toolbox.http.client import GuardedClient, OutgoingError
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.redaction.sanitizing import clean_line

log = get_logger(__name__)

# The places of an error's reason in a response, unless the settings name another place.
USUAL_PLACES: Final = ("error.message", "error", "message", "detail")
PASSING: Final = frozenset({408, 425, 429})


@dataclass(frozen=True, slots=True)
class ServiceResponse:
    status: int
    body: Any
    retry_after_seconds: float | None = None


class Service:
    """A service. `client` is one that follows no redirects (`Clients.trusted`), so that the key in `headers` goes
    nowhere else.
    """

    def __init__(
        self, name: str, base_url: str, client: GuardedClient, headers: Mapping[str, str], timeout_seconds: float
    ):
        self.name = name
        self.base_url = base_url.rstrip("/")
        self._client = client
        self._headers = dict(headers)
        self._timeout_seconds = timeout_seconds

    async def call(
        self, method: str, path: str, body: object = None, *, error_path: str | None = None, often: bool = False
    ) -> Any:
        """The JSON of a successful response. Raises ProviderUnavailable if a later attempt may succeed, ProviderError
        otherwise.

        `often`: the call is logged at the level debug, unless it fails.
        """
        response = await self._response(method, path, body, often)
        if response.status in PASSING or response.status >= 500:
            raise ProviderUnavailable(
                self.name,
                f"{self.name} cannot be used now ({response.status}).",
                status=response.status,
                retry_after_seconds=response.retry_after_seconds,
                reason=self.reason_in(response.body, error_path),
            )
        if not 200 <= response.status < 300:
            raise self._refused(response, error_path)
        if response.body is None:
            raise ProviderUnavailable(self.name, f"{self.name} did not return JSON.", status=response.status)
        return response.body

    def reason_in(self, body: object, error_path: str | None) -> str | None:
        """The reason that the service returned, fit for users: short, without URLs and without our secrets."""
        for place in (error_path, *USUAL_PLACES) if error_path else USUAL_PLACES:
            for found in dug(body, place):
                if isinstance(found, str) and found.strip():
                    return self.presentable(found)
        return None

    def presentable(self, text: str) -> str:
        for value in self._headers.values():
            for secret in {value, value.rpartition(" ")[2]}:
                text = text.replace(secret, "…") if len(secret) > 3 else text
        return clean_line(text)

    def _refused(self, response: ServiceResponse, error_path: str | None) -> ProviderError:
        details = {"provider": self.name, "status": response.status}
        if 300 <= response.status < 400:
            message = f"{self.name} redirects to another URL ({response.status}). Change its settings."
            return ProviderError("provider_moved", message, details=details)
        if response.status in (401, 403):
            message = f"{self.name} does not accept the key it was called with ({response.status})."
            return ProviderError("provider_refused_key", message, details=details)
        reason = self.reason_in(response.body, error_path)
        message = f"{self.name} refused the request ({response.status}){f': {reason}' if reason else '.'}"
        return ProviderError("provider_refused", message, details=details)

    async def _response(self, method: str, path: str, body: object, often: bool) -> ServiceResponse:
        started = time.perf_counter()
        content = b"" if body is None else json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        headers = {**self._headers, "accept": "application/json"}
        if body is not None:
            headers["content-type"] = "application/json"
        result: int | str = "failed"
        try:
            response = await self._client.fetch(
                method,
                f"{self.base_url}{path}",
                headers=headers,
                content=content,
                timeout_seconds=self._timeout_seconds,
            )
            result = response.status
        except OutgoingError as failed:
            result = type(failed).__name__
            raise ProviderUnavailable(self.name, f"{self.name} cannot be reached.", reason=str(failed)) from failed
        finally:
            is_bad = isinstance(result, str) or result >= 400
            (log.debug if often and not is_bad else log.info)(
                "provider.call",
                provider=self.name,
                method=method,
                path=path.partition("?")[0],
                result=result,
                milliseconds=round((time.perf_counter() - started) * 1000, 1),
            )
        return ServiceResponse(
            response.status, _json(response.content), retry_after(response.headers.get("retry-after"))
        )


def retry_after(value: str | None) -> float | None:
    """Seconds from a header that contains seconds or a date."""
    if not value:
        return None
    if value.strip().isdecimal():
        return float(value.strip()[:9])
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def _json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None
