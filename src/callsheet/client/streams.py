"""The stream of a job: everything that it reports until it has ended, also over lost connections (G9)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from uuid import UUID

import httpx
from pydantic import ValidationError

from callsheet.client.errors import Unreachable, refusal_of
from callsheet.client.requests import Patience, Requests, passes, quoted
from callsheet.wire.errors import CallsheetError
from callsheet.wire.jobs import TERMINAL, JobEvent, JobPreview, JobProgress, StreamReset

StreamItem = JobEvent | JobProgress | JobPreview | StreamReset

# A stream without events sends a comment every 15 seconds.
SILENT_SECONDS = 45.0
CONNECT_SECONDS = 10.0


class JobStream:
    """`lost` is called with the reason when the connection is lost and opened again."""

    def __init__(
        self,
        requests: Requests,
        job_id: UUID,
        retry_seconds: float,
        lost: Callable[[str], object] = lambda reason: None,
        silent_seconds: float = SILENT_SECONDS,
    ):
        self._requests = requests
        self._job_id = job_id
        self._patience = Patience(retry_seconds)
        self._lost = lost
        self._timeout = httpx.Timeout(silent_seconds, connect=CONNECT_SECONDS)
        self._last: str | None = None

    async def items(self) -> AsyncGenerator[StreamItem | None, None]:
        """Also yields None for each sign of life between the items."""
        while True:
            error: CallsheetError
            try:
                async with aclosing(self._connection()) as items:
                    async for item in items:
                        self._patience.renew()
                        yield item
                        if isinstance(item, JobEvent) and item.to_status in TERMINAL:
                            return
                return
            except _Closed as closed:
                error = closed
            except httpx.TransportError as broken:
                error = Unreachable(str(broken) or type(broken).__name__)
            except CallsheetError as refused:
                error = refused
            if passes(error) and not isinstance(error, _Closed):
                self._lost(_reason(error))
            await self._requests.pause(self._patience, error)

    async def _connection(self) -> AsyncGenerator[StreamItem | None, None]:
        """What one connection brings. Ends if the job had ended before; a connection that ends early is _Closed."""
        transport = self._requests.transport
        request = transport.api.build_request(
            "GET",
            f"/api/ai-jobs/{quoted(self._job_id)}/stream",
            headers={"last-event-id": self._last} if self._last else {},
            timeout=self._timeout,
        )
        response = await transport.send(request, stream=True)
        try:
            if response.status_code == httpx.codes.NO_CONTENT:
                return
            if response.status_code != httpx.codes.OK:
                await transport.read(response)
                raise refusal_of(response)
            async for name, position, data in messages(transport.lines(response)):
                self._last = position or self._last
                try:
                    item = _item(name, data)
                except ValidationError:
                    raise self._requests.no_callsheet() from None
                yield item
        finally:
            await transport.leave(response)
        raise _Closed("The control plane closed the stream before the job had ended.")


class _Closed(Unreachable):
    """The control plane closed the stream in good order, for example because it stops."""


def _item(name: str, data: str) -> StreamItem | None:
    if name.startswith("job."):
        return JobEvent.model_validate_json(data)
    match name:
        case "progress":
            return JobProgress.model_validate_json(data)
        case "preview":
            return JobPreview.model_validate_json(data)
        case "reset":
            return StreamReset.model_validate_json(data)
    return None


def _reason(error: CallsheetError) -> str:
    status = getattr(error, "status", None)
    return f"it returned the status {status}" if status is not None else str(error)


async def messages(lines: AsyncIterator[str]) -> AsyncIterator[tuple[str, str | None, str]]:
    """Server-sent events as (name, id, data); a comment is an event without a name."""
    name, position, data = "message", None, list[str]()
    async for line in lines:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match field:
            case "event":
                name = value
            case "id":
                position = value
            case "data":
                data.append(value)
            case "" if line:
                yield "", None, ""
            case "":
                if data:
                    yield name, position, "\n".join(data)
                name, position, data = "message", None, []
