"""Small pieces gathered into few large ones, so that a hop to a thread is paid once per megabyte."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator


async def in_batches(content: AsyncIterable[bytes] | bytes, size: int) -> AsyncIterator[bytes]:
    """The same bytes in pieces of at least `size`, the last one excepted; nothing for nothing."""
    if isinstance(content, bytes):
        if content:
            yield content
        return
    waiting: list[bytes] = []
    gathered = 0
    async for piece in content:
        waiting.append(piece)
        gathered += len(piece)
        if gathered >= size:
            yield b"".join(waiting)
            waiting, gathered = [], 0
    if gathered:
        yield b"".join(waiting)
