"""A real Lightbox on a free port, with its own directories: in this process, or as a process to kill."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from callsheet.settings import LightboxSettings
from callsheet_lightbox.server import RunningLightbox, running_lightbox
from tests.support.run.ports import free_port
from tests.support.waiting import PATIENCE_SECONDS, until


@asynccontextmanager
async def lightbox_here(directory: Path, **settings: Any) -> AsyncIterator[RunningLightbox]:
    """Runs in this process, so it starts quickly and a test can read its folders. Has the probe nodes."""
    chosen = LightboxSettings(**{"port": 0, "probes": True, **settings})
    async with running_lightbox(chosen, directory) as running:
        yield running


@dataclass
class LightboxProcess:
    """`callsheet lightbox` as a user starts it. A test may kill it and start it again on the same port."""

    directory: Path
    as_cloud: bool = False
    probes: bool = True
    port: int = field(default_factory=free_port)
    environment: dict[str, str] = field(default_factory=dict)
    # The last lines of its output.
    printed: deque[str] = field(default_factory=lambda: deque(maxlen=50))
    _process: asyncio.subprocess.Process | None = None
    _drain: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        flags = [flag for flag, given in (("--as-cloud", self.as_cloud), ("--probes", self.probes)) if given]
        arguments = ["lightbox", "--port", str(self.port), "--directory", str(self.directory), *flags]
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "callsheet",
            *arguments,
            stderr=asyncio.subprocess.PIPE,
            cwd=self.directory.parent,
            env={**os.environ, "CALLSHEET_LOG__FORMAT": "json", **self.environment},
        )
        assert self._process.stderr is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            async for line in self._process.stderr:
                if b"renders at http://" in line:
                    break
            else:
                raise RuntimeError("Lightbox did not start")
        self._drain = asyncio.create_task(self._read_on(self._process.stderr))

    async def _read_on(self, stream: asyncio.StreamReader) -> None:
        # An unread pipe fills up and stops the process.
        while line := await stream.readline():
            self.printed.append(line.decode(errors="replace"))

    async def end(self, number: int = signal.SIGTERM) -> int:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)
        code = await self._process.wait()
        if self._drain is not None:
            await self._drain
        return code

    async def ended(self) -> int:
        """Waits until the process ends by itself."""
        assert self._process is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await self._process.wait()

    async def kill(self) -> None:
        await self.end(signal.SIGKILL)


@asynccontextmanager
async def lightbox_process(directory: Path, **options: Any) -> AsyncIterator[LightboxProcess]:
    process = LightboxProcess(directory, **options)
    await process.start()
    try:
        yield process
    finally:
        await process.end()


async def finished(client: httpx.AsyncClient, prompt_id: str, seconds: float = PATIENCE_SECONDS) -> dict[str, Any]:
    """Waits for the history entry of a prompt."""
    entry: dict[str, Any] = {}

    async def is_there() -> bool:
        entry.update((await client.get(f"/history/{prompt_id}")).json().get(prompt_id, {}))
        return bool(entry)

    await until(is_there, seconds)
    return entry


async def render(client: httpx.AsyncClient, prompt: dict[str, Any], **request: Any) -> dict[str, Any]:
    """Sends a graph and waits for its history entry."""
    response = await client.post("/prompt", json={"prompt": prompt, **request})
    assert response.status_code == 200, response.text
    return await finished(client, response.json()["prompt_id"])


async def idle(client: httpx.AsyncClient) -> None:
    """Waits until nothing runs and nothing waits."""

    async def is_idle() -> bool:
        return bool((await client.get("/prompt")).json()["exec_info"]["queue_remaining"] == 0)

    await until(is_idle)
