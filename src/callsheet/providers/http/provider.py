"""Services that need only settings: jobs are submitted, polled until they end, and their outputs downloaded.

Such a service has no way to find a job whose submit lost its connection. So a submit is repeated only if the service
reported that it did not accept the job. A submitted job is polled for a long time: giving up early would generate, and
pay for, the job twice.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

from callsheet.providers.context import BuiltInContext, Clients
from callsheet.providers.downloads import DownloadLimits, download
from callsheet.providers.errors import MAX_KEPT_ID_LENGTH, ProviderError, ProviderUnavailable
from callsheet.providers.http.config import HttpAction, HttpCancel, HttpPoll, HttpProviderConfig, placeholders
from callsheet.providers.http.templates import Values, dug, dug_texts, filled, filled_path, percent_of
from callsheet.providers.media import Concurrency, Finish, Generation, Made, MadeFile, MediaProvider, ReportProgress
from callsheet.providers.parameters import parameter_problems, with_defaults
from callsheet.providers.payload_forms import parameters_schema
from callsheet.providers.service_calls import Service
from callsheet.wire.errors import FieldProblem
from callsheet.wire.plurals import counted
from callsheet.wire.reasons import REQUIRED

SUBMIT_ATTEMPTS: Final = 3
DOWNLOAD_ATTEMPTS: Final = 3
MAX_PAUSE_SECONDS: Final = 30.0
CANCEL_SECONDS: Final = 10.0
MAX_ID_LENGTH: Final = 500
MAX_RESPONSE_BYTES: Final = 2_097_152
# This is longer than the limit of the service, so that the service ends the run first.
MARGIN_SECONDS: Final = 30


def configured(context: BuiltInContext) -> Iterable[MediaProvider]:
    return [HttpProvider(name, config, context.clients) for name, config in context.config.http.items()]


class HttpProvider:
    finish = Finish.SYNC

    def __init__(self, name: str, config: HttpProviderConfig, clients: Clients):
        self.name = name
        self._config = config
        self._headers = headers_of(config)
        client = clients.trusted(timeout_seconds=config.request_seconds, max_bytes=MAX_RESPONSE_BYTES)
        self._service = Service(name, config.base_url, client, self._headers, config.request_seconds)
        self._outputs = clients.guarded()

    @property
    def actions(self) -> frozenset[str]:
        return frozenset(self._config.actions)

    def params_schema(self, action: str) -> dict[str, Any]:
        return parameters_schema(self._config.actions[action].params)

    @property
    def paid(self) -> bool:
        return not self._config.free

    @property
    def run_limit_seconds(self) -> int:
        return self._config.limit_seconds + MARGIN_SECONDS

    @property
    def is_set_up(self) -> bool:
        return not self._config.needs_secret

    def problems(self, generation: Generation) -> Iterable[FieldProblem]:
        if self._config.needs_secret:
            yield FieldProblem(
                "provider",
                f"The provider is not configured. Set CALLSHEET_PROVIDERS__HTTP__{self.name.upper()}__SECRET.",
            )
        yield from problems_of(self._config.actions[generation.action], generation)

    def concurrency(self, generation: Generation) -> Concurrency | None:
        return Concurrency(f"media:{self.name}", self._config.max_concurrent)

    def preview_info(self, generation: Generation) -> Mapping[str, Any]:
        params = with_defaults(self._config.actions[generation.action].params, generation.params)
        return {"prompt": generation.prompt, "params": params, "service": urlsplit(self._config.base_url).hostname}

    async def close(self) -> None:
        """Nothing to close: `Clients` closes the HTTP clients."""

    async def generate(self, generation: Generation, directory: Path, report_progress: ReportProgress) -> Made:
        action = self._config.actions[generation.action]
        params = with_defaults(action.params, generation.params)
        values = values_of(action, generation)
        job_id: str | None = None
        try:
            async with asyncio.timeout(self._config.limit_seconds):
                job_id = await self._taken(action, values)
                report_progress(0.0, f"{self.name} accepted the request")
                status, urls = await self._finished(job_id, report_progress)
                files = await self._downloaded(urls, directory)
        except TimeoutError:
            await self._cancel(job_id)
            seconds = self._config.limit_seconds
            raise ProviderError(
                "run_limit",
                f"{self.name} did not finish within {counted(seconds, 'second')}.",
                details={"provider": self.name, "provider_job_id": job_id},
            ) from None
        except ProviderError as error:
            if job_id is not None:
                error.details.setdefault("provider_job_id", job_id)
            raise
        except asyncio.CancelledError:
            await self._cancel(job_id)
            raise
        # A longer text would refuse the whole result.
        kept = job_id if len(job_id) <= MAX_KEPT_ID_LENGTH else None
        return Made(files, kept, {"status": status, "params": params})

    async def _taken(self, action: HttpAction, values: Values) -> str:
        """Submits a job and returns its id at the service. If this is canceled, a job that may have started is
        canceled.
        """
        submit = asyncio.create_task(self._submit(action, values))
        try:
            return await asyncio.shield(submit)
        except asyncio.CancelledError:
            await asyncio.wait({submit}, timeout=CANCEL_SECONDS)
            submit.cancel()
            [outcome] = await asyncio.gather(submit, return_exceptions=True)
            await self._cancel(outcome if isinstance(outcome, str) else None)
            raise

    async def _submit(self, action: HttpAction, values: Values) -> str:
        for attempt in range(1, SUBMIT_ATTEMPTS + 1):
            try:
                response = await self._call(action, values)
                break
            except ProviderUnavailable as busy:
                pause = requested_pause(busy)
                if pause is None or attempt == SUBMIT_ATTEMPTS:
                    raise
                await asyncio.sleep(pause)
        return self._id_in(response, action)

    def _id_in(self, response: Any, action: HttpAction) -> str:
        [found, *_] = [*dug(response, action.id), None]
        text = str(found) if isinstance(found, str | int) and not isinstance(found, bool) else ""
        # An id of dots alone would change the URL that contains it, and half a surrogate pair cannot be in a URL.
        if not text.strip(".") or len(text) > MAX_ID_LENGTH or not text.isprintable():
            reason = self._service.reason_in(response, self._config.poll.error)
            message = f"{self.name} accepted the request but returned no id{f': {reason}' if reason else '.'}"
            raise ProviderError("provider_answer", message, details={"provider": self.name, "path": action.id})
        return text

    async def _finished(self, job_id: str, report_progress: ReportProgress) -> tuple[str, list[str]]:
        """The last status of the job, and the URLs of its outputs."""
        poll, heard = self._config.poll, time.monotonic()
        known = False
        while True:
            pause = poll.every_seconds
            try:
                response = await self._call(poll, {"id": job_id})
                status = self._status_in(response)
                heard, known = time.monotonic(), True
            except ProviderError as error:
                # The service may need a moment until it knows a job that it has accepted.
                passing = isinstance(error, ProviderUnavailable) or (error.details.get("status") == 404 and not known)
                if not passing or time.monotonic() - heard > poll.patience_seconds:
                    await self._cancel(job_id)
                    raise
                pause = max(pause, min(MAX_PAUSE_SECONDS, error.details.get("retry_after_seconds") or 0.0))
            else:
                if status in poll.done:
                    return status, self._urls_in(response)
                if status in poll.failed:
                    raise self._failed(response, status)
                report_progress(self._percent_in(response), self._service.presentable(status))
            await asyncio.sleep(pause)

    def _percent_in(self, response: Any) -> float | None:
        path = self._config.poll.progress
        return percent_of(next(iter(dug(response, path)), None)) if path else None

    def _status_in(self, response: Any) -> str:
        [found, *_] = [*dug(response, self._config.poll.status), None]
        if not isinstance(found, str | int | bool):
            raise ProviderUnavailable(self.name, f"{self.name} does not report the job's progress.")
        text = str(found).lower() if isinstance(found, bool) else str(found)
        return text if len(text) <= 100 else f"{text[:99]}…"

    def _failed(self, response: Any, status: str) -> ProviderError:
        reason = self._service.reason_in(response, self._config.poll.error)
        message = f"{self.name} failed{f': {reason}' if reason else '.'}"
        return ProviderError("provider_failed", message, details={"provider": self.name, "status": status})

    def _urls_in(self, response: Any) -> list[str]:
        urls = dug_texts(response, self._config.poll.outputs)
        details = {"provider": self.name, "outputs": len(urls)}
        if not urls:
            raise ProviderError("no_output", f"{self.name} ended without a result.", details=details)
        if len(urls) > self._config.download.max_files:
            raise ProviderError(
                "too_many_outputs", f"{self.name} returned more outputs than are accepted.", details=details
            )
        try:
            found = [urljoin(f"{self._config.base_url}/", url) for url in urls]
            usable = all(urlsplit(url).scheme in ("http", "https") for url in found)
        except ValueError:
            usable = False
        if not usable:
            message = f"{self.name} returned a URL that must not be fetched."
            raise ProviderError("output_refused", message, details=details)
        return found

    async def _downloaded(self, urls: list[str], directory: Path) -> list[MadeFile]:
        """Downloads one file after the other: several gigabytes at the same time would not be faster."""
        return [await self._fetched(url, directory, f"{self.name}-{number}") for number, url in enumerate(urls, 1)]

    async def _fetched(self, url: str, directory: Path, stem: str) -> MadeFile:
        wanted = self._config.download
        limits = DownloadLimits(wanted.types, wanted.max_bytes, wanted.limit_seconds)
        own = wanted.send_headers and urlsplit(url)[:2] == urlsplit(self._config.base_url)[:2]
        headers = self._headers if own else {}
        for attempt in range(1, DOWNLOAD_ATTEMPTS):
            with suppress(ProviderUnavailable):
                return await download(self._outputs, self.name, url, directory, stem, limits, headers)
            # The storage of the service may need a moment until it has a new file.
            await asyncio.sleep(min(self._config.poll.every_seconds, 2.0) * attempt)
        return await download(self._outputs, self.name, url, directory, stem, limits, headers)

    async def _cancel(self, job_id: str | None) -> None:
        if job_id is None or self._config.cancel is None:
            return
        call = asyncio.ensure_future(self._call(self._config.cancel, {"id": job_id}))
        await asyncio.wait({call}, timeout=CANCEL_SECONDS)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)

    async def _call(self, request: HttpAction | HttpPoll | HttpCancel, values: Values) -> Any:
        path = filled_path(request.path, request.query, values)
        body = None if request.body is None else filled(request.body, values)
        often = isinstance(request, HttpPoll)
        return await self._service.call(request.method, path, body, error_path=self._config.poll.error, often=often)


def requested_pause(busy: ProviderUnavailable) -> float | None:
    """The time to wait before a refused request is repeated; None if that is too long to wait here."""
    seconds = busy.details.get("retry_after_seconds")
    if busy.details.get("status") not in (429, 503) or not isinstance(seconds, float):
        return None
    return seconds if seconds <= MAX_PAUSE_SECONDS else None


def headers_of(config: HttpProviderConfig) -> dict[str, str]:
    secret = "" if config.secret is None else config.secret.get_secret_value()
    return {name: value.get_secret_value().replace("{secret}", secret) for name, value in config.headers.items()}


def values_of(action: HttpAction, generation: Generation) -> dict[str, Any]:
    params = with_defaults(action.params, generation.params)
    return {"prompt": generation.prompt} | {f"params.{name}": value for name, value in params.items()}


def problems_of(action: HttpAction, generation: Generation) -> Iterator[FieldProblem]:
    """Problems of the request, by fields like `params.width`."""
    if action.prompt_required and not generation.prompt.strip():
        yield FieldProblem("prompt", REQUIRED)
    if len(generation.prompt) > action.max_prompt_length:
        yield FieldProblem("prompt", f"The prompt must have at most {counted(action.max_prompt_length, 'character')}.")
    yield from parameter_problems(action.params, generation.action, generation.params)
    path = filled_path(action.path, {}, values_of(action, generation)).partition("?")[0]
    for name in [*placeholders(action.path)][:1]:
        # A `..` would call another URL with our key.
        if {".", ".."} & set(path.split("/")):
            yield FieldProblem(name, "The value is a part of the service's URL. It must not be `.` or `..`.")
