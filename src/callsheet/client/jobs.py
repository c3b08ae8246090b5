"""A submitted job, and the file that it made. Each without and with an event loop."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from callsheet.client.calls import Calls, Heard
from callsheet.client.errors import JobNotCompleted
from callsheet.client.streams import StreamItem
from callsheet.client.transfers import not_counted
from callsheet.client.transport import Counted, finished, iterated
from callsheet.wire.jobs import Job, JobOutput, JobStatus

Lost = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class _File:
    """A file that a job made."""

    described: JobOutput
    _calls: Calls

    @property
    def name(self) -> str:
        return self.described.name

    @property
    def mime_type(self) -> str:
        return self.described.mime_type

    @property
    def size(self) -> int:
        return self.described.size

    @property
    def url(self) -> str | None:
        """A signed URL for a browser. It needs no key and expires."""
        return self.described.url


@dataclass(frozen=True, slots=True)
class ResultFile(_File):
    def read(self) -> bytes:
        return finished(self._calls.transfers.read(self.described))

    def save(self, target: str | Path, on_progress: Counted = not_counted) -> Path:
        """Downloads the file. It gets this name only when it is complete."""
        finished(self._calls.transfers.save(self.described, Path(target), on_progress))
        return Path(target)


@dataclass(frozen=True, slots=True)
class AsyncResultFile(_File):
    async def read(self) -> bytes:
        return await self._calls.transfers.read(self.described)

    async def save(self, target: str | Path, on_progress: Counted = not_counted) -> Path:
        """Downloads the file. It gets this name only when it is complete."""
        await self._calls.transfers.save(self.described, Path(target), on_progress)
        return Path(target)


@dataclass(slots=True)
class _JobHandle:
    """`now` is the job as the control plane described it last."""

    now: Job
    _calls: Calls

    @property
    def id(self) -> UUID:
        return self.now.id

    @property
    def status(self) -> JobStatus:
        return self.now.status


class JobHandle(_JobHandle):
    def refresh(self) -> Job:
        """Reads the job again."""
        self.now = finished(self._calls.job(self.id))
        return self.now

    def wait(self, on_progress: Heard | None = None, timeout: float | None = None) -> JobHandle:
        """Waits until the job has completed. `on_progress` is called with each progress.

        Raises JobNotCompleted if the job ended without a result, and NotEnded after `timeout` seconds, which it notices
        up to 15 seconds later.
        """
        try:
            self.now = finished(self._calls.wait(self.now, on_progress, timeout))
        except JobNotCompleted as ended:
            self.now = ended.job
            raise
        return self

    def stream(self, on_lost: Lost | None = None, retry_seconds: float | None = None) -> Iterator[StreamItem]:
        """Everything that the job reports until it has ended. If the connection is lost, it goes on at the last event;
        a StreamReset says that all events follow again.
        """
        return iterated(self._calls.stream(self.id, retry_seconds, on_lost))

    def cancel(self) -> Job:
        """Cancels the job. A job that has ended stays as it is."""
        self.now = finished(self._calls.cancel(self.id))
        return self.now

    @property
    def files(self) -> list[ResultFile]:
        """What a completed job made, the main file first."""
        return [ResultFile(each, self._calls) for each in self.now.outputs]

    @property
    def file(self) -> ResultFile:
        """The main file of a completed job."""
        return ResultFile(self._calls.output(self.now), self._calls)


class AsyncJobHandle(_JobHandle):
    async def refresh(self) -> Job:
        """Reads the job again."""
        self.now = await self._calls.job(self.id)
        return self.now

    async def wait(self, on_progress: Heard | None = None) -> AsyncJobHandle:
        """Like `JobHandle.wait`. For a limit, use asyncio.timeout."""
        try:
            self.now = await self._calls.wait(self.now, on_progress)
        except JobNotCompleted as ended:
            self.now = ended.job
            raise
        return self

    def stream(
        self, on_lost: Lost | None = None, retry_seconds: float | None = None
    ) -> AsyncGenerator[StreamItem, None]:
        """Like `JobHandle.stream`."""
        return self._calls.stream(self.id, retry_seconds, on_lost)

    async def cancel(self) -> Job:
        """Cancels the job. A job that has ended stays as it is."""
        self.now = await self._calls.cancel(self.id)
        return self.now

    @property
    def files(self) -> list[AsyncResultFile]:
        """What a completed job made, the main file first."""
        return [AsyncResultFile(each, self._calls) for each in self.now.outputs]

    @property
    def file(self) -> AsyncResultFile:
        """The main file of a completed job."""
        return AsyncResultFile(self._calls.output(self.now), self._calls)
