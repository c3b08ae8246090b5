"""The response of a live stream.

Starlette's own response has two tasks and a task group for each stream, which take nine kilobytes. A page with
thousands of watchers needs thousands of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from starlette.responses import Response
from starlette.types import Receive, Scope, Send


class EventStream(Response):
    media_type = "text/event-stream"

    # FastAPI reads the status of its documentation from this signature.
    def __init__(self, pieces: AsyncGenerator[bytes], status_code: int = 200):
        # A proxy that buffers the output would delay the events.
        super().__init__(status_code=status_code, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.current_task()
        assert sending is not None
        watching = asyncio.create_task(_until_gone(receive, sending))
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            async for piece in self._pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except asyncio.CancelledError:
            # The watcher of the stream canceled it, because the client disconnected. Other cancellations belong to the
            # request.
            if not watching.done() or sending.uncancel():
                raise
        except OSError:
            pass  # As in Starlette: the reader left between two pieces.
        finally:
            watching.cancel()
            await self._pieces.aclose()


async def _until_gone(receive: Receive, sending: asyncio.Task[None]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    sending.cancel()
