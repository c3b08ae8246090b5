"""The response of a live stream.

Starlette's own has two tasks and a group of them for each: nine kilobytes, and a page that thousands watch is thousands
of these.
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
            # The stream's watcher cancelled it, because the client disconnected. Other cancellations are the request's.
            if not watching.done() or sending.uncancel():
                raise
        except OSError:
            pass  # as Starlette has it: the reader left between two pieces
        finally:
            watching.cancel()
            await self._pieces.aclose()


async def _until_gone(receive: Receive, sending: asyncio.Task[None]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    sending.cancel()
