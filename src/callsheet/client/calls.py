"""What both clients do, written once."""

from __future__ import annotations

import math
import os
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from callsheet.client.errors import ClientError, JobNotCompleted, NotEnded, Unreachable, UnusableFile
from callsheet.client.requests import Patience, Requests, given, quoted
from callsheet.client.streams import SILENT_SECONDS, JobStream, StreamItem
from callsheet.client.transfers import Transfers, not_counted
from callsheet.client.transport import Counted, Transport
from callsheet.wire.base import Page
from callsheet.wire.effects import Effect
from callsheet.wire.errors import FileNotMeasured, InvalidRequest, InvalidTransition
from callsheet.wire.jobs import TERMINAL, Job, JobOutput, JobProgress, JobStatus
from callsheet.wire.media import File, Video
from callsheet.wire.money.quotes import Quote
from callsheet.wire.money.wallet import Wallet

# A value of a property. A path is uploaded.
Value = bool | int | float | str | Path | File | UUID | None
# The file that an effect works on. A job of a video changes the status of this video.
Source = Path | File | Video | UUID
Heard = Callable[[JobProgress], object]

URL_VARIABLE, KEY_VARIABLE = "CALLSHEET_CLIENT__URL", "CALLSHEET_CLIENT__API_KEY"
PAGE = 100


def url_and_key(url: str | None, key: str | None) -> tuple[str, str]:
    """What is not given is read from the environment. The key of the environment belongs to its URL."""
    found_url, found_key = os.environ.get(URL_VARIABLE), os.environ.get(KEY_VARIABLE)
    chosen = (url or found_url or "").rstrip("/")
    if not chosen:
        raise ClientError(f"The URL of the control plane is missing. Give url=…, or set {URL_VARIABLE}.")
    if key is None and found_url is not None and found_url.rstrip("/") != chosen:
        raise ClientError(f"{KEY_VARIABLE} is for {found_url}. It is not sent to {chosen}: give key=…")
    if not (key or found_key):
        raise ClientError(f"The API key is missing. Give key=…, or set {KEY_VARIABLE}.")
    return chosen, key or found_key or ""


@dataclass(frozen=True, slots=True)
class Calls:
    requests: Requests
    transfers: Transfers

    @classmethod
    def of(cls, url: str, transport: Transport, retry_seconds: float) -> Calls:
        requests = Requests(url, transport, retry_seconds)
        return cls(requests, Transfers(requests))

    async def json(self, method: str, path: str, body: object, idempotency_key: str | None) -> Any:
        response = await self.requests.response(method, path, body, idempotency_key=idempotency_key)
        return self.requests.json(response)

    async def effect(self, slug: str) -> Effect:
        return await self.requests.ask(Effect, "GET", f"/api/effects/{quoted(slug)}")

    async def effects(self) -> list[Effect]:
        found: list[Effect] = []
        cursor: str | None = ""
        while cursor is not None:
            after = f"&cursor={quoted(cursor)}" if cursor else ""
            page = await self.requests.ask(Page[Effect], "GET", f"/api/effects?limit={PAGE}{after}")
            found += page.items
            cursor = page.next_cursor
        return found

    async def wallet(self) -> Wallet:
        return await self.requests.ask(Wallet, "GET", "/api/wallet")

    async def job(self, job_id: str | UUID) -> Job:
        return await self.requests.ask(Job, "GET", f"/api/ai-jobs/{quoted(job_id)}")

    async def submit(
        self,
        slug: str,
        file: Source | None,
        values: Mapping[str, Any],
        idempotency_key: str | None,
        on_upload: Counted | None,
        **fields: object,
    ) -> Job:
        """Uploads the files and submits the job. The key is made once, so a request that is sent again after a lost
        response finds the job of the first one.
        """
        body = {**await self._body(slug, file, values, on_upload or not_counted), **fields}
        key = idempotency_key or uuid.uuid4().hex
        return await self.requests.ask(Job, "POST", "/api/ai-jobs", given(body), idempotency_key=key)

    async def quote(
        self, slug: str, file: Source | None, values: Mapping[str, Any], on_upload: Counted | None
    ) -> Quote:
        """Uploads the files and asks for the price. Waits until a file is measured if the price depends on it."""
        return await self.quoted("effect", await self._body(slug, file, values, on_upload or not_counted))

    async def quoted(self, field: str, body: Mapping[str, Any]) -> Quote:
        """`field`: the field of a quote for the body of this submit."""
        patience = Patience(self.requests.retry_seconds)
        while True:
            quote = await self.requests.ask(Quote, "POST", "/api/quotes", {field: given(body)}, repeat=True)
            measured = [each for each in quote.missing if each.code == FileNotMeasured.code]
            seconds = patience.wait_seconds(measured[0].retry_after_seconds) if measured else None
            if seconds is None:
                return quote
            await self.requests.transport.sleep(seconds)

    async def _body(
        self, slug: str, file: Source | None, values: Mapping[str, Any], counted: Counted
    ) -> dict[str, Any]:
        file, values = await self._checked(slug, file, values)
        return {
            "effect_id": slug,
            "input_payload": {key: await self._value(value, counted) for key, value in values.items()},
            **(await self._main(file, counted)),
        }

    async def _checked(
        self, slug: str, file: Source | None, values: Mapping[str, Any]
    ) -> tuple[Source | None, Mapping[str, Any]]:
        """The file that the effect works on, which may be given by its type (`video=…`), and the values. They are
        checked before anything is uploaded.
        """
        if not any(isinstance(each, Path | File) for each in (file, *values.values())):
            return file, values
        effect = await self.effect(slug)
        known, left = {each.key for each in effect.properties}, dict(values)
        if file is None and effect.input is not None and effect.input.type not in known:
            file = left.pop(effect.input.type, None)
        for key in left:
            if key not in known:
                offered = ", ".join(sorted(known)) or "none"
                raise InvalidRequest.field(key, f"{key}: {slug} has no such property. It has: {offered}.")
        if file is not None and effect.input is None:
            raise InvalidRequest.field("file", f"{slug} takes no file. Leave the file out.")
        return file, left

    async def _main(self, file: Source | None, counted: Counted) -> dict[str, Any]:
        if isinstance(file, Video):
            return {"video_id": str(file.id)}
        return {"input_file_id": None if file is None else await self._value(file, counted)}

    async def _value(self, value: Any, counted: Counted) -> Any:
        if isinstance(value, Path):
            value = await self.transfers.upload(value, None, counted)
        if isinstance(value, File):
            value = value.id
        return str(value) if isinstance(value, UUID) else value

    async def cancel(self, job_id: UUID) -> Job:
        """Cancels the job. If it had ended before, it is returned as it is."""
        try:
            return await self.requests.ask(Job, "POST", f"/api/ai-jobs/{job_id}/cancel", repeat=True)
        except InvalidTransition:
            # It had ended, or the response to an earlier attempt was lost.
            return await self.job(job_id)

    async def stream(
        self, job_id: UUID, retry_seconds: float | None = None, on_lost: Callable[[str], object] | None = None
    ) -> AsyncGenerator[StreamItem, None]:
        seconds = self.requests.retry_seconds if retry_seconds is None else retry_seconds
        stream = JobStream(self.requests, job_id, seconds, on_lost or (lambda reason: None))
        async with aclosing(stream.items()) as items:
            async for item in items:
                if item is not None:
                    yield item

    async def wait(self, job: Job, on_progress: Heard | None, seconds: float | None = None) -> Job:
        """The job when it has completed."""
        end = None if seconds is None else time.monotonic() + seconds
        while job.status not in TERMINAL:
            await self._follow(job.id, on_progress, end)
            job = await self.job(job.id)
        if job.status is not JobStatus.COMPLETED:
            raise JobNotCompleted(job)
        return job

    async def _follow(self, job_id: UUID, on_progress: Heard | None, end: float | None) -> None:
        left = math.inf if end is None else max(end - time.monotonic(), 0.1)
        patience, silent = min(self.requests.retry_seconds, left), min(SILENT_SECONDS, left)
        stream = JobStream(self.requests, job_id, patience, silent_seconds=silent)
        late = NotEnded(f"Job {job_id} has not ended in time. It goes on.")
        try:
            async with aclosing(stream.items()) as items:
                async for item in items:
                    if isinstance(item, JobProgress) and on_progress is not None:
                        on_progress(item)
                    if end is not None and time.monotonic() >= end:
                        raise late
        except Unreachable:
            if end is not None and time.monotonic() >= end:
                raise late from None
            raise

    def output(self, job: Job) -> JobOutput:
        if not job.outputs:
            raise UnusableFile(f"Job {job.id} made no file. Its result is in job.now.result.")
        return job.outputs[0]
