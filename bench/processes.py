"""Real processes to measure: a control plane in a data directory of its own, and what it costs."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import httpx
import psutil  # type: ignore[import-untyped]

START_SECONDS = 180.0
KEEPER = re.compile(r"/keeper\.py$")
ROOT = Path(__file__).parents[1]
# The words that start a command of Callsheet with these arguments.
Command = Callable[..., list[str]]


@contextmanager
def fresh_home() -> Iterator[Path]:
    """A directory that others may pass: as root, PostgreSQL runs as another user."""
    with tempfile.TemporaryDirectory(prefix="callsheet-bench-") as directory:
        os.chmod(directory, 0o711)
        yield Path(directory) / "home"


def callsheet_command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "callsheet", *arguments]


def environment(home: Path) -> dict[str, str]:
    """The shell's own, without settings that would make it measure another installation.

    Run beside the home, not here: a .env or callsheet.toml of the working directory must not count either.
    """
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith("CALLSHEET_")}
    return {**kept, "CALLSHEET_HOME": str(home), "CALLSHEET_LOG__FORMAT": "json"}


@asynccontextmanager
async def serving(
    home: Path, port: int, settings: Mapping[str, str] | None = None, command: Command = callsheet_command
) -> AsyncIterator[Process]:
    """`callsheet serve`, ready to respond."""
    process = await asyncio.create_subprocess_exec(
        *command("serve", "--port", str(port)),
        env={**environment(home), **(settings or {})},
        cwd=home.parent,
        stderr=PIPE,
    )
    assert process.stderr is not None
    log = asyncio.create_task(process.stderr.read())
    try:
        await _until_ready(process, f"http://127.0.0.1:{port}/readyz", log)
        yield process
    finally:
        await stop(process)
        await log


async def _until_ready(process: Process, url: str, log: asyncio.Task[bytes]) -> None:
    async with asyncio.timeout(START_SECONDS), httpx.AsyncClient(trust_env=False) as client:
        while process.returncode is None:
            try:
                if (await client.get(url)).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.02)
    raise RuntimeError(f"the control plane did not start:\n{(await log).decode(errors='replace')}")


async def stop(process: Process) -> None:
    if process.returncode is None:
        process.send_signal(signal.SIGTERM)
        await process.wait()


def cpu_seconds(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def resident_mb(pid: int) -> float:
    return float(psutil.Process(pid).memory_info().rss) / 1e6


def proportional_mb(process: psutil.Process) -> float:
    """Memory that several processes share is counted once among them, where the system reports it (Linux)."""
    memory = process.memory_full_info()
    return float(getattr(memory, "pss", 0) or memory.rss) / 1e6


def find_keeper(home: Path) -> psutil.Process:
    """The process that keeps the embedded PostgreSQL of this data directory; PostgreSQL is its child."""
    directory = str(home.resolve() / "postgres")
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or []
        if directory in command and any(KEEPER.search(part) for part in command):
            return process
    raise RuntimeError(f"no keeper runs for {home}")
