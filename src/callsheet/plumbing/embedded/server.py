"""One PostgreSQL server per home, shared by every process that uses it.

The kernel keeps the state as file locks, so that a crash leaves no wrong state: `start.lock` (a process is starting or
stopping the server), `users.lock` (shared by all processes that use it) and `keeper.lock` (the keeper runs, and so does
its server). The keeper stops the server when it can lock `users.lock` exclusively.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ParamSpec, TypeVar

from callsheet.plumbing.embedded.account import choose_account
from callsheet.plumbing.embedded.application_role import ensure_application_role
from callsheet.plumbing.embedded.binaries import find_binaries
from callsheet.plumbing.embedded.cluster import ensure_cluster, forget_reused_pid, live_postmaster
from callsheet.plumbing.embedded.launch import (
    HOST,
    Setback,
    choose_port,
    server_version,
    spawn_keeper,
)
from callsheet.plumbing.embedded.layout import APPLICATION, USER, EmbeddedPostgresError, Layout
from callsheet.plumbing.embedded.locks import ASK_AGAIN_SECONDS, EXCLUSIVE, SHARED, FileLock, is_held

# Recovery after a crash replays at most a gigabyte of log. It must not be mistaken for a hanging server.
PATIENCE_SECONDS = 300.0
RETRY_SECONDS = 0.1

P = ParamSpec("P")
T = TypeVar("T")


class EmbeddedPostgres:
    """This process's claim on the server of a home. The server runs at least until `close`, or until the process
    ends.
    """

    def __init__(self, layout: Layout, claim: FileLock, port: int):
        self._layout = layout
        self._claim = claim
        self._port = port

    @classmethod
    async def start(cls, home: Path) -> EmbeddedPostgres:
        """Starts the server of this home, or shares the running one."""
        layout = Layout.of(home)
        await asyncio.to_thread(layout.prepare)
        claim = FileLock(layout.users_lock)
        try:
            async with _starting_or_stopping(layout) as start_lock:
                # This waits for a keeper that is shutting down: it holds this lock until its server has ended.
                await _claimed_in_time(claim, layout)
                layout.stop_mark.unlink(missing_ok=True)
                was_running = is_held(layout.keeper_lock)
                port = await _bring_up(layout, start_lock)
                await ensure_application_role(layout, port, is_fresh=not was_running)
        except BaseException:
            await _release(claim, layout)
            raise
        return cls(layout, claim, port)

    @property
    def port(self) -> int:
        return self._port

    @property
    def data_directory(self) -> Path:
        return self._layout.data

    def application_dsn(self, database: str) -> str:
        """The DSN of the role that Callsheet uses."""
        return self._dsn(APPLICATION, database)

    def dsn(self, database: str) -> str:
        """The DSN of the superuser, for administration of the server."""
        return self._dsn(USER, database)

    def _dsn(self, user: str, database: str) -> str:
        return f"postgresql://{user}:{self._layout.password(user)}@{HOST}:{self._port}/{database}?sslmode=disable"

    async def ensure_running(self) -> bool:
        """Starts the server again if it or its keeper was killed. Returns whether that was necessary. Otherwise it
        costs one system call.

        The port stays the same unless another program took it meanwhile. A server that `stop` stopped stays down.
        """
        if is_held(self._layout.keeper_lock):
            return False
        async with _starting_or_stopping(self._layout) as start_lock:
            if self._layout.stop_mark.exists():
                raise EmbeddedPostgresError(
                    f"The PostgreSQL server in {self._layout.directory} was stopped on purpose. "
                    "It starts again with the next process that is started on it."
                )
            self._port = await _bring_up(self._layout, start_lock)
        return True

    async def close(self) -> None:
        """Releases the claim. After the last claim, waits until the server is down."""
        await _release(self._claim, self._layout)


async def stop(home: Path) -> bool:
    """Stops the server even if a process uses it, and keeps it down until the next start. Returns whether a server
    ran.
    """
    layout = Layout.of(home)
    with layout.accessible():
        if not layout.data.exists():
            return False
    await asyncio.to_thread(layout.prepare)
    async with _starting_or_stopping(layout):
        if not is_held(layout.keeper_lock):
            return await _stop_orphan(layout)
        layout.mark_stopped()
        await _wait_for_keeper_to_end(layout)
        return True


@asynccontextmanager
async def _starting_or_stopping(layout: Layout) -> AsyncIterator[FileLock]:
    lock = FileLock(layout.start_lock)
    try:
        await lock.acquire(EXCLUSIVE, PATIENCE_SECONDS)
    except TimeoutError:
        raise layout.failure(
            f"Another process has been starting or stopping the PostgreSQL server in {layout.directory} "
            f"for {PATIENCE_SECONDS:.0f} seconds. End it and try again."
        ) from None
    try:
        yield lock
    finally:
        lock.release()


async def _claimed_in_time(claim: FileLock, layout: Layout) -> None:
    try:
        await claim.acquire(SHARED, PATIENCE_SECONDS)
    except TimeoutError:
        raise layout.failure(
            f"The PostgreSQL server in {layout.directory} has been shutting down "
            f"for {PATIENCE_SECONDS:.0f} seconds. Check for a disk that is full or hangs."
        ) from None


async def _release(claim: FileLock, layout: Layout) -> None:
    last = claim.is_taken and claim.try_acquire(EXCLUSIVE)
    claim.release()
    if last:
        await _wait_for_keeper_to_end(layout, until_claimed=True)


async def _bring_up(layout: Layout, start_lock: FileLock) -> int:
    """The port of a server that responds and has a keeper. Called under the start lock and with a claim."""
    port = layout.recorded_port()
    if port is not None and await _responses(layout, port):
        return port
    await _stop_orphan(layout)
    binaries = find_binaries()
    account = await _to_the_end(choose_account, layout, binaries)
    await _to_the_end(ensure_cluster, layout, binaries, account, start_lock)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        port = choose_port(port)
        layout.record_port(port)
        forget_reused_pid(layout)
        log_offset = layout.log.stat().st_size
        await _to_the_end(spawn_keeper, layout, binaries, account, port, start_lock)
        if await _responses(layout, port):
            return port
        log = layout.log_since(log_offset)
        if Setback.in_log(log) is None or time.monotonic() > deadline:
            raise layout.failure("The PostgreSQL server did not start.", log)
        await asyncio.sleep(RETRY_SECONDS)


async def _to_the_end(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Runs work in a thread. A canceled caller still waits: the start lock must not be released before the work
    ends.
    """
    task = asyncio.ensure_future(asyncio.to_thread(work, *args, **kwargs))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


async def _responses(layout: Layout, port: int) -> bool:
    """Waits for a response as long as the keeper runs: the server may be starting or recovering."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while is_held(layout.keeper_lock):
        if await server_version(layout, port) is not None:
            return True
        if time.monotonic() > deadline:
            raise layout.failure(
                f"The PostgreSQL server has not responded for {PATIENCE_SECONDS:.0f} seconds on port {port}. "
                "Run `callsheet db stop` and start again."
            )
        await asyncio.sleep(ASK_AGAIN_SECONDS)
    return False


async def _stop_orphan(layout: Layout) -> bool:
    """Stops a server without a keeper, so that a new one can run under a keeper. Returns whether there was one.

    If the kernel cannot notify the server that its keeper was killed (macOS), it runs on. On Linux it is already
    shutting down, and a second SIGINT changes nothing.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    found = False
    while (pid := live_postmaster(layout)) is not None:
        if not found:
            os.kill(pid, signal.SIGINT)
            found = True
        if time.monotonic() > deadline:
            raise layout.failure(
                f"A PostgreSQL server (process {pid}) uses {layout.data} and does not stop. End it and try again."
            )
        await asyncio.sleep(ASK_AGAIN_SECONDS)
    return found


async def _wait_for_keeper_to_end(layout: Layout, *, until_claimed: bool = False) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while is_held(layout.keeper_lock):
        if until_claimed and _is_in_use(layout):
            return
        if time.monotonic() > deadline:
            raise layout.failure(
                f"The PostgreSQL server in {layout.directory} has not stopped "
                f"for {PATIENCE_SECONDS:.0f} seconds. Check for a disk that is full or hangs."
            )
        await asyncio.sleep(ASK_AGAIN_SECONDS)


def _is_in_use(layout: Layout) -> bool:
    """Whether a process has a claim. The keeper's exclusive lock, which it takes to shut down, does not count."""
    lock = FileLock(layout.users_lock)
    try:
        return not lock.try_acquire(EXCLUSIVE) and lock.try_acquire(SHARED)
    finally:
        lock.release()
