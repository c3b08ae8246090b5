"""A submitted batch: its progress and its results. Without and with an event loop."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal
from uuid import UUID

from callsheet.client.calls import Calls, Value
from callsheet.client.errors import NotEnded
from callsheet.client.requests import given, quoted
from callsheet.client.transfers import not_counted
from callsheet.client.transport import Counted, finished
from callsheet.toolbox.file_names import named_as
from callsheet.wire.base import Page
from callsheet.wire.effects import Batch, Effect
from callsheet.wire.errors import InvalidRequest
from callsheet.wire.jobs import Job, JobOutput
from callsheet.wire.media import File
from callsheet.wire.money.quotes import Quote

# A file, or the values of an item by the names of the properties; the file that the effect works on is `file`.
BatchItemValue = Path | File | UUID | Mapping[str, Value]
OnBatch = Callable[[Batch], object]
Mode = Literal["cartesian", "zipped"]
FILE = "file"
# Seconds between two looks at a batch: short at first, for a batch of a few quick items.
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0


@dataclass(frozen=True, slots=True)
class BatchCalls:
    calls: Calls

    async def submit(
        self,
        slug: str,
        items: Sequence[BatchItemValue] | None,
        grid: Mapping[str, Sequence[Value]] | None,
        mode: Mode,
        values: Mapping[str, Value],
        idempotency_key: str | None,
        on_upload: Counted | None,
        **fields: object,
    ) -> Batch:
        """Uploads each file once, and submits the batch. The key is made once, as for a job."""
        body = await self._body(slug, items, grid, mode, values, on_upload)
        key = idempotency_key or uuid.uuid4().hex
        return await self.calls.requests.ask(
            Batch, "POST", "/api/batches", given({**body, **fields}), idempotency_key=key
        )

    async def quote(
        self,
        slug: str,
        items: Sequence[BatchItemValue] | None,
        grid: Mapping[str, Sequence[Value]] | None,
        mode: Mode,
        values: Mapping[str, Value],
        on_upload: Counted | None,
    ) -> Quote:
        return await self.calls.quoted("batch", await self._body(slug, items, grid, mode, values, on_upload))

    async def _body(
        self,
        slug: str,
        items: Sequence[BatchItemValue] | None,
        grid: Mapping[str, Sequence[Value]] | None,
        mode: Mode,
        values: Mapping[str, Value],
        on_upload: Counted | None,
    ) -> dict[str, Any]:
        effect = await self.calls.effect(slug)
        uploads = _Uploads(self.calls, on_upload or not_counted)
        body: dict[str, Any] = {"effect_id": slug, "input_payload": await uploads.sent(_checked(effect, values))}
        if items is not None:
            read = [_item(effect, each) for each in items]
            body["items"] = [await self._sent(uploads, each) for each in read]
        if grid is not None:
            lists = {key: list(each) for key, each in _checked(effect, grid).items()}
            sent = {key: [await uploads.one(value) for value in each] for key, each in lists.items()}
            files = sent.pop(FILE, None)
            body["grid"] = {"mode": mode, "values": sent, **given({"input_file_ids": files})}
        return body

    async def _sent(self, uploads: _Uploads, values: Mapping[str, Value]) -> dict[str, Any]:
        sent = await uploads.sent(values)
        file_id = sent.pop(FILE, None)
        return {"input_payload": sent, **given({"input_file_id": file_id})}

    async def get(self, batch_id: str | UUID) -> Batch:
        return await self.calls.requests.ask(Batch, "GET", f"/api/batches/{quoted(batch_id)}")

    async def change(self, batch_id: UUID, verb: Literal["cancel", "retry"]) -> Batch:
        """Both can be sent again: a job is canceled once, and a retry has a key."""
        key = uuid.uuid4().hex if verb == "retry" else None
        return await self.calls.requests.ask(
            Batch, "POST", f"/api/batches/{batch_id}/{verb}", idempotency_key=key, repeat=True
        )

    async def wait(self, batch: Batch, on_progress: OnBatch | None, seconds: float | None = None) -> Batch:
        """The batch when every item has ended, with any outcome."""
        end = None if seconds is None else time.monotonic() + seconds
        pause = FIRST_PAUSE
        while True:
            if on_progress is not None:
                on_progress(batch)
            if batch.status == "finished":
                return batch
            if end is not None and time.monotonic() + pause > end:
                raise NotEnded(f"Batch {batch.id} has not ended in time. It goes on.")
            await self.calls.requests.transport.sleep(pause)
            pause = min(pause * 1.5, LONGEST_PAUSE)
            batch = await self.get(batch.id)

    async def jobs(self, batch_id: UUID) -> list[Job]:
        """The jobs in the order of the items."""
        found: list[Job] = []
        cursor: str | None = ""
        while cursor is not None:
            after = f"&cursor={quoted(cursor)}" if cursor else ""
            path = f"/api/ai-jobs?batch_id={batch_id}&limit=200{after}"
            page = await self.calls.requests.ask(Page[Job], "GET", path)
            found += page.items
            cursor = page.next_cursor
        return sorted(found, key=lambda job: job.batch_item or 0)

    async def save(self, batch_id: UUID, folder: Path, on_file: Callable[[Path], object] | None = None) -> list[Path]:
        """Downloads every result into a folder. A file that is there already is not downloaded again."""
        saved = []
        for job in await self.jobs(batch_id):
            for number, output in enumerate(job.outputs, 1):
                path = folder / name_of(job, output, number)
                if not path.exists():
                    await self.calls.transfers.save(output, path, not_counted)
                saved.append(path)
                if on_file is not None:
                    on_file(path)
        return saved


class _Uploads:
    """Files of a batch. Each path is uploaded once."""

    def __init__(self, calls: Calls, counted: Counted):
        self._calls = calls
        self._counted = counted
        self._done: dict[Path, str] = {}

    async def sent(self, values: Mapping[str, Value]) -> dict[str, Any]:
        return {key: await self.one(value) for key, value in values.items()}

    async def one(self, value: Value) -> Any:
        if isinstance(value, Path):
            if value not in self._done:
                self._done[value] = str((await self._calls.transfers.upload(value, None, self._counted)).id)
            return self._done[value]
        if isinstance(value, File):
            value = value.id
        return str(value) if isinstance(value, UUID) else value


def _item(effect: Effect, item: BatchItemValue) -> Mapping[str, Value]:
    return _checked(effect, item if isinstance(item, Mapping) else {FILE: item})


def _checked(effect: Effect, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values, with the file that the effect works on as `file`. They are checked before anything is uploaded."""
    known = {each.key for each in effect.properties}
    checked = dict(values)
    if effect.input is not None and effect.input.type not in known and effect.input.type in checked:
        checked[FILE] = checked.pop(effect.input.type)
    for key in checked:
        if key not in known and key != FILE:
            offered = ", ".join(sorted(known)) or "none"
            raise InvalidRequest.field(key, f"{key}: {effect.slug} has no such property. It has: {offered}.")
    if FILE in checked and effect.input is None:
        raise InvalidRequest.field(FILE, f"{effect.slug} takes no file. Leave the file out.")
    return checked


def name_of(job: Job, output: JobOutput, number: int) -> str:
    """The name of a result in a folder: the number of its item, then the name of its input."""
    source = PurePosixPath(job.inputs[0].name).stem if job.inputs else "result"
    more = "" if number == 1 else f"-{number}"
    # Names come from other people: only the last part of one is used.
    stem = "".join(sign if sign.isalnum() or sign in "-_. " else "_" for sign in source)[:80].strip(". ") or "result"
    ending = PurePosixPath(named_as(output.name, output.mime_type)).suffix.lower()
    return f"{job.batch_item or 0:04}-{stem}{more}{ending}"


@dataclass(slots=True)
class _BatchHandle:
    """`now` is the batch as the control plane described it last."""

    now: Batch
    _calls: BatchCalls

    @property
    def id(self) -> UUID:
        return self.now.id


class BatchHandle(_BatchHandle):
    def refresh(self) -> Batch:
        """Reads the batch again."""
        self.now = finished(self._calls.get(self.id))
        return self.now

    def wait(self, on_progress: OnBatch | None = None, timeout: float | None = None) -> Batch:
        """Waits until every item has ended, with any outcome: see `now.counts`. `on_progress` gets the batch again and
        again. Raises NotEnded after `timeout` seconds.
        """
        self.now = finished(self._calls.wait(self.now, on_progress, timeout))
        return self.now

    def cancel(self) -> Batch:
        """Cancels the items that have not ended."""
        self.now = finished(self._calls.change(self.id, "cancel"))
        return self.now

    def retry(self) -> Batch:
        """Runs the items again that failed or expired."""
        self.now = finished(self._calls.change(self.id, "retry"))
        return self.now

    def jobs(self) -> list[Job]:
        """The jobs in the order of the items."""
        return finished(self._calls.jobs(self.id))

    def save(self, folder: str | Path) -> list[Path]:
        """Downloads every result into this folder, which exists. A file that is there already is kept."""
        return finished(self._calls.save(self.id, Path(folder)))

    def save_archive(self, target: str | Path) -> Path:
        """Downloads all results as one zip."""
        path = f"/api/batches/{self.id}/download"
        finished(self._calls.calls.transfers.save_response(path, Path(target), not_counted))
        return Path(target)


class AsyncBatchHandle(_BatchHandle):
    async def refresh(self) -> Batch:
        """Reads the batch again."""
        self.now = await self._calls.get(self.id)
        return self.now

    async def wait(self, on_progress: OnBatch | None = None) -> Batch:
        """Like `BatchHandle.wait`. For a limit, use asyncio.timeout."""
        self.now = await self._calls.wait(self.now, on_progress)
        return self.now

    async def cancel(self) -> Batch:
        """Cancels the items that have not ended."""
        self.now = await self._calls.change(self.id, "cancel")
        return self.now

    async def retry(self) -> Batch:
        """Runs the items again that failed or expired."""
        self.now = await self._calls.change(self.id, "retry")
        return self.now

    async def jobs(self) -> list[Job]:
        """The jobs in the order of the items."""
        return await self._calls.jobs(self.id)

    async def save(self, folder: str | Path, on_file: Callable[[Path], object] | None = None) -> list[Path]:
        """Like `BatchHandle.save`."""
        return await self._calls.save(self.id, Path(folder), on_file)

    async def save_archive(self, target: str | Path) -> Path:
        """Downloads all results as one zip."""
        path = f"/api/batches/{self.id}/download"
        await self._calls.calls.transfers.save_response(path, Path(target), not_counted)
        return Path(target)
