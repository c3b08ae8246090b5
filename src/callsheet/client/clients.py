"""`Callsheet` and `AsyncCallsheet`: the same calls, without and with an event loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self
from uuid import UUID

from callsheet.client.batches import AsyncBatchHandle, BatchCalls, BatchHandle, BatchItemValue, Mode
from callsheet.client.calls import Calls, Heard, Source, Value, url_and_key
from callsheet.client.jobs import AsyncJobHandle, AsyncResultFile, JobHandle, ResultFile
from callsheet.client.requests import Model
from callsheet.client.transfers import not_counted
from callsheet.client.transport import Blocking, Counted, Looped, finished
from callsheet.wire.effects import Effect
from callsheet.wire.media import File
from callsheet.wire.money.quotes import Quote
from callsheet.wire.money.wallet import Wallet

RETRY_SECONDS = 60.0


class Callsheet:
    """A client of one user.

    `url` and `key` default to CALLSHEET_CLIENT__URL and CALLSHEET_CLIENT__API_KEY. `on_behalf_of`: the user that a
    service key acts for, for example `external:4711`. `retry_seconds`: for how long a request is sent again if the
    control plane cannot be reached or asks to wait. A control plane that has not responded yet is tried for 3 seconds.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        on_behalf_of: str | None = None,
        retry_seconds: float = RETRY_SECONDS,
    ):
        self.url, key = url_and_key(url, key)
        self._calls = Calls.of(self.url, Blocking(self.url, key, on_behalf_of), retry_seconds)
        self._batches = BatchCalls(self._calls)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        finished(self._calls.requests.transport.close())

    def effects(self) -> list[Effect]:
        return finished(self._calls.effects())

    def effect(self, slug: str) -> Effect:
        return finished(self._calls.effect(slug))

    def wallet(self) -> Wallet:
        return finished(self._calls.wallet())

    def upload(self, source: Path | bytes, name: str | None = None, on_progress: Counted = not_counted) -> File:
        """Uploads a file for later jobs. Bytes need a name with an extension."""
        return finished(self._calls.transfers.upload(source, name, on_progress))

    def submit(
        self,
        effect: str,
        *,
        file: Source | None = None,
        values: Mapping[str, Value] | None = None,
        idempotency_key: str | None = None,
        client_reference: str | None = None,
        metadata: Mapping[str, str] | None = None,
        webhook_url: str | None = None,
        priority: int = 0,
        on_upload: Counted | None = None,
        **properties: Value,
    ) -> JobHandle:
        """Uploads the files and submits a job.

        The file that the effect works on is given as `file`, or by its type: `video=Path("in.mp4")`. All other names
        are properties of the effect; `values` takes properties that have the name of a parameter.
        """
        given = {**(values or {}), **properties}
        fields = {
            "client_reference": client_reference,
            "metadata": metadata,
            "webhook_url": webhook_url,
            "priority": priority,
        }
        return JobHandle(
            finished(self._calls.submit(effect, file, given, idempotency_key, on_upload, **fields)), self._calls
        )

    def quote(
        self,
        effect: str,
        *,
        file: Source | None = None,
        values: Mapping[str, Value] | None = None,
        on_upload: Counted | None = None,
        **properties: Value,
    ) -> Quote:
        """What `submit` with the same values would cost now, and what is missing. Nothing is held.

        Files are uploaded, as `submit` does. To upload a file once, give the result of `upload` to both.
        """
        return finished(self._calls.quote(effect, file, {**(values or {}), **properties}, on_upload))

    def run(
        self,
        effect: str,
        *,
        file: Source | None = None,
        values: Mapping[str, Value] | None = None,
        idempotency_key: str | None = None,
        client_reference: str | None = None,
        metadata: Mapping[str, str] | None = None,
        webhook_url: str | None = None,
        on_upload: Counted | None = None,
        on_progress: Heard | None = None,
        timeout: float | None = None,
        **properties: Value,
    ) -> ResultFile:
        """Submits a job, waits until it has completed, and returns its main file."""
        job = self.submit(
            effect,
            file=file,
            values={**(values or {}), **properties},
            idempotency_key=idempotency_key,
            client_reference=client_reference,
            metadata=metadata,
            webhook_url=webhook_url,
            on_upload=on_upload,
        )
        return job.wait(on_progress, timeout).file

    def job(self, job_id: str | UUID) -> JobHandle:
        """A job that was submitted before."""
        return JobHandle(finished(self._calls.job(job_id)), self._calls)

    def batch(
        self,
        effect: str,
        items: Sequence[BatchItemValue] | None = None,
        *,
        grid: Mapping[str, Sequence[Value]] | None = None,
        mode: Mode = "cartesian",
        values: Mapping[str, Value] | None = None,
        idempotency_key: str | None = None,
        client_reference: str | None = None,
        metadata: Mapping[str, str] | None = None,
        webhook_url: str | None = None,
        priority: int = 0,
        on_upload: Counted | None = None,
    ) -> BatchHandle:
        """Submits up to 1,000 jobs of an effect together: all are accepted, or none.

        `items` has a file or the values of each job: `[Path("a.mp4"), {"file": Path("b.mp4"), "strength": 1}]`.
        Instead, `grid` has a list for each property: `{"file": paths, "strength": [0.5, 1]}` makes a job of each
        combination, or with the mode `zipped` of the first values, the second values, and so on. `values` are the same
        for all.
        """
        fields = {
            "client_reference": client_reference,
            "metadata": metadata,
            "webhook_url": webhook_url,
            "priority": priority,
        }
        submitted = finished(
            self._batches.submit(effect, items, grid, mode, values or {}, idempotency_key, on_upload, **fields)
        )
        return BatchHandle(submitted, self._batches)

    def quote_batch(
        self,
        effect: str,
        items: Sequence[BatchItemValue] | None = None,
        *,
        grid: Mapping[str, Sequence[Value]] | None = None,
        mode: Mode = "cartesian",
        values: Mapping[str, Value] | None = None,
        on_upload: Counted | None = None,
    ) -> Quote:
        """What `batch` with the same items or grid would cost now, and what is missing. Nothing is held.

        Files are uploaded, as for `quote`. Leave them out if the price does not depend on them: it is known then, too.
        """
        return finished(self._batches.quote(effect, items, grid, mode, values or {}, on_upload))

    def batch_of(self, batch_id: str | UUID) -> BatchHandle:
        """A batch that was submitted before."""
        return BatchHandle(finished(self._batches.get(batch_id)), self._batches)

    def ask(
        self,
        model: type[Model],
        method: str,
        path: str,
        body: object = None,
        *,
        idempotency_key: str | None = None,
        repeat: bool | None = None,
    ) -> Model:
        """Sends any request of the API. The response is a model of `callsheet.wire`. POST and PATCH are sent once,
        unless they have an idempotency key or `repeat` says that they may be sent again.
        """
        return finished(
            self._calls.requests.ask(model, method, path, body, idempotency_key=idempotency_key, repeat=repeat)
        )

    def request(self, method: str, path: str, body: object = None, *, idempotency_key: str | None = None) -> Any:
        """Like `ask`, for JSON without a model."""
        return finished(self._calls.json(method, path, body, idempotency_key))


class AsyncCallsheet:
    """`Callsheet` for programs with an event loop. Instead of `timeout`, use asyncio.timeout."""

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        on_behalf_of: str | None = None,
        retry_seconds: float = RETRY_SECONDS,
    ):
        self.url, key = url_and_key(url, key)
        self._calls = Calls.of(self.url, Looped(self.url, key, on_behalf_of), retry_seconds)
        self._batches = BatchCalls(self._calls)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._calls.requests.transport.close()

    async def effects(self) -> list[Effect]:
        return await self._calls.effects()

    async def effect(self, slug: str) -> Effect:
        return await self._calls.effect(slug)

    async def wallet(self) -> Wallet:
        return await self._calls.wallet()

    async def upload(self, source: Path | bytes, name: str | None = None, on_progress: Counted = not_counted) -> File:
        """Like `Callsheet.upload`."""
        return await self._calls.transfers.upload(source, name, on_progress)

    async def submit(
        self,
        effect: str,
        *,
        file: Source | None = None,
        values: Mapping[str, Value] | None = None,
        idempotency_key: str | None = None,
        client_reference: str | None = None,
        metadata: Mapping[str, str] | None = None,
        webhook_url: str | None = None,
        priority: int = 0,
        on_upload: Counted | None = None,
        **properties: Value,
    ) -> AsyncJobHandle:
        """Like `Callsheet.submit`."""
        given = {**(values or {}), **properties}
        fields = {
            "client_reference": client_reference,
            "metadata": metadata,
            "webhook_url": webhook_url,
            "priority": priority,
        }
        job = await self._calls.submit(effect, file, given, idempotency_key, on_upload, **fields)
        return AsyncJobHandle(job, self._calls)

    async def quote(
        self,
        effect: str,
        *,
        file: Source | None = None,
        values: Mapping[str, Value] | None = None,
        on_upload: Counted | None = None,
        **properties: Value,
    ) -> Quote:
        """Like `Callsheet.quote`."""
        return await self._calls.quote(effect, file, {**(values or {}), **properties}, on_upload)

    async def run(
        self,
        effect: str,
        *,
        file: Source | None = None,
        values: Mapping[str, Value] | None = None,
        idempotency_key: str | None = None,
        client_reference: str | None = None,
        metadata: Mapping[str, str] | None = None,
        webhook_url: str | None = None,
        on_upload: Counted | None = None,
        on_progress: Heard | None = None,
        **properties: Value,
    ) -> AsyncResultFile:
        """Like `Callsheet.run`."""
        job = await self.submit(
            effect,
            file=file,
            values={**(values or {}), **properties},
            idempotency_key=idempotency_key,
            client_reference=client_reference,
            metadata=metadata,
            webhook_url=webhook_url,
            on_upload=on_upload,
        )
        return (await job.wait(on_progress)).file

    async def job(self, job_id: str | UUID) -> AsyncJobHandle:
        """A job that was submitted before."""
        return AsyncJobHandle(await self._calls.job(job_id), self._calls)

    async def batch(
        self,
        effect: str,
        items: Sequence[BatchItemValue] | None = None,
        *,
        grid: Mapping[str, Sequence[Value]] | None = None,
        mode: Mode = "cartesian",
        values: Mapping[str, Value] | None = None,
        idempotency_key: str | None = None,
        client_reference: str | None = None,
        metadata: Mapping[str, str] | None = None,
        webhook_url: str | None = None,
        priority: int = 0,
        on_upload: Counted | None = None,
    ) -> AsyncBatchHandle:
        """Like `Callsheet.batch`."""
        fields = {
            "client_reference": client_reference,
            "metadata": metadata,
            "webhook_url": webhook_url,
            "priority": priority,
        }
        submitted = await self._batches.submit(
            effect, items, grid, mode, values or {}, idempotency_key, on_upload, **fields
        )
        return AsyncBatchHandle(submitted, self._batches)

    async def quote_batch(
        self,
        effect: str,
        items: Sequence[BatchItemValue] | None = None,
        *,
        grid: Mapping[str, Sequence[Value]] | None = None,
        mode: Mode = "cartesian",
        values: Mapping[str, Value] | None = None,
        on_upload: Counted | None = None,
    ) -> Quote:
        """Like `Callsheet.quote_batch`."""
        return await self._batches.quote(effect, items, grid, mode, values or {}, on_upload)

    async def batch_of(self, batch_id: str | UUID) -> AsyncBatchHandle:
        """A batch that was submitted before."""
        return AsyncBatchHandle(await self._batches.get(batch_id), self._batches)

    async def ask(
        self,
        model: type[Model],
        method: str,
        path: str,
        body: object = None,
        *,
        idempotency_key: str | None = None,
        repeat: bool | None = None,
    ) -> Model:
        """Like `Callsheet.ask`."""
        return await self._calls.requests.ask(model, method, path, body, idempotency_key=idempotency_key, repeat=repeat)

    async def request(self, method: str, path: str, body: object = None, *, idempotency_key: str | None = None) -> Any:
        """Like `Callsheet.request`."""
        return await self._calls.json(method, path, body, idempotency_key)
