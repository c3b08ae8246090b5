"""An engine that the agent starts: its process, its log, and the note by which the next agent finds the process."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from callsheet.toolbox.errors import OperatorError
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.private_files import read_private, write_private
from callsheet.worker.engines import engine_launcher
from callsheet.worker.engines.bounded_log import BoundedLog
from callsheet.worker.engines.ports import is_free
from callsheet.worker.engines.processes import is_group_alive, memory_bytes, started_at

log = get_logger(__name__)

LOG_NAME, NOTE_NAME = "engine.log", "process.json"
# Timeout after SIGTERM and after SIGKILL. ComfyUI ends at once.
STOP_SECONDS = 10.0
POLL_SECONDS = 0.05
PIECE = 65_536


@dataclass(frozen=True, slots=True)
class Launch:
    """How one engine is started. `folder` is for this engine only: its log, its note and the files it writes."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    directory: Path
    folder: Path
    port: int


class EngineProcess:
    def __init__(self, launch: Launch, log_bytes: int):
        self.launch = launch
        self.log = BoundedLog(launch.folder / LOG_NAME, log_bytes)
        # Set when the process has ended or was stopped.
        self.ended = asyncio.Event()
        self.exit_code: int | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def is_running(self) -> bool:
        return self._process is not None and not self.ended.is_set()

    @property
    def memory_bytes(self) -> int | None:
        return memory_bytes(self._process.pid) if self._process is not None and self.is_running else None

    async def start(self) -> None:
        """Raises OSError if the process cannot be started."""
        if not is_free(self.launch.port):
            raise OSError(f"Port {self.launch.port} is used by another program.")
        self.log.forget_tail()
        self.ended.clear()
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", engine_launcher.__file__, str(os.getpid())),
            *self.launch.command,
            cwd=self.launch.directory,
            env=dict(self.launch.environment),
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=STDOUT,
            # The engine has its own process group: Ctrl-C reaches only the agent, which lets jobs finish first.
            start_new_session=True,
        )
        self._tasks = [asyncio.create_task(self._read(self._process)), asyncio.create_task(self._wait(self._process))]
        self._note(self._process.pid)

    async def stop(self) -> None:
        """Ends the process and its children. Safe to repeat."""
        process = self._process
        if process is None:
            return
        _signal_group(process.pid, signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                await self.ended.wait()
        # Also ends children that outlived the process.
        _signal_group(process.pid, signal.SIGKILL)
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self.ended.wait()
        except TimeoutError:
            # For example, the process waits for its driver. Its port stays in use, which the next start reports.
            log.error("engine.process_does_not_end", pid=process.pid)
            self.ended.set()
        else:
            await _wait_for_group(process.pid)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with suppress(OSError):
            (self.launch.folder / NOTE_NAME).unlink()
        # Only at the end, so that a cancelled stop can be repeated.
        self._process = None

    def _note(self, pid: int) -> None:
        agent = os.getpid()
        note = {
            "pid": pid,
            "started": started_at(pid),
            "agent": agent,
            "agent_started": started_at(agent),
            "port": self.launch.port,
        }
        try:
            write_private(self.launch.folder / NOTE_NAME, note, survives_machine_crash=False)
        except OSError as error:
            log.warning("engine.process_not_noted", reason=str(error))

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while piece := await process.stdout.read(PIECE):
            self.log.write(piece)

    async def _wait(self, process: asyncio.subprocess.Process) -> None:
        self.exit_code = await process.wait()
        # Waits for the last output, with a timeout: a child process may hold the pipe open forever.
        await asyncio.wait({self._tasks[0]}, timeout=1.0)
        self.ended.set()


async def _wait_for_group(group: int) -> None:
    """Waits until the process group has ended. Killed children end later than the process itself, and hold GPU
    memory and ports until then.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(STOP_SECONDS):
            # They are not children of this process, so their end can only be polled.
            while is_group_alive(group):  # noqa: ASYNC110
                await asyncio.sleep(POLL_SECONDS)


def noted_port(folder: Path) -> int | None:
    """Port of the engine of this folder, if it runs now."""
    note = read_private(folder / NOTE_NAME) or {}
    port = note.get("port")
    return port if isinstance(port, int) and _is_alive(note.get("pid"), note.get("started")) else None


async def end_left_over(folders: Path) -> None:
    """Ends engines that a killed agent left: they hold GPU memory and ports. Engines of a live agent keep running."""
    for path in _notes(folders):
        note = read_private(path) or {}
        pid = note.get("pid")
        if _is_alive(note.get("agent"), note.get("agent_started")):
            continue
        if isinstance(pid, int) and _is_alive(pid, note.get("started")):
            log.warning("engine.ends_process_of_killed_agent", pid=pid, port=note.get("port"))
            await _end(pid, note.get("started"))
        with suppress(OSError):
            path.unlink()


def _notes(folders: Path) -> list[Path]:
    return sorted(folders.glob(f"*/{NOTE_NAME}"))


async def _end(pid: int, started: object) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        _signal_group(pid, number)
        if await _has_ended(pid, started):
            return
    raise OperatorError(
        f"The engine of an earlier worker (process {pid}) does not end, not even by SIGKILL. Look at the GPU's driver."
    )


async def _has_ended(pid: int, started: object) -> bool:
    deadline = time.monotonic() + STOP_SECONDS
    # It is not a child of this process, so its end can only be polled.
    while _is_alive(pid, started) and time.monotonic() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(POLL_SECONDS)
    return not _is_alive(pid, started)


def _is_alive(pid: object, started: object) -> bool:
    """Whether the same process runs, not a later one with the same id."""
    return isinstance(pid, int) and isinstance(started, str) and pid > 1 and started_at(pid) == started


def _signal_group(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
