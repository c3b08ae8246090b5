"""Runs a command of Callsheet and writes down which of its functions serve one job: `traced_process.py RECORD serve`.

In a control plane, they are the functions that a request enters, also in the tasks and threads that it starts. In a
worker, they are the functions that the loop of its polls enters from its first poll on, also in the runs that the loop
starts. Background loops are left out, and so is what runs while a module is imported.

Each line of the record is the name of a request, a module and a function, separated by tabs.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import runpy
import sys
import threading
from contextvars import Context, ContextVar, copy_context
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

SOURCE = str(Path(__file__).parents[1] / "src") + "/"
IMPORTING = "<frozen importlib._bootstrap>"
REQUESTS = (
    ("submit", re.compile(r"POST /api/ai-jobs")),
    ("poll", re.compile(r"POST /api/worker/poll")),
    ("heartbeat", re.compile(r"POST /api/worker/heartbeat")),
    ("complete", re.compile(r"POST /api/worker/complete")),
    ("stream", re.compile(r"GET /api/ai-jobs(/[^/]+)?/stream")),
)
WORKER = "worker"
POLL = REQUESTS[1][1]

# The request that runs in this context, and the tasks that started it, from the first one on.
request_name: ContextVar[str | None] = ContextVar("request_name", default=None)
task_path: ContextVar[tuple[int, ...]] = ContextVar("task_path", default=())


class Recorder:
    def __init__(self, record: TextIO):
        self._record = record
        self._seen: set[str] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks = 0
        # The task with the loop of the polls.
        self.polling: tuple[int, ...] | None = None

    def on_call(self, frame: FrameType, event: str, _: object) -> None:
        """The profile function of all threads."""
        if event != "call" or not frame.f_code.co_filename.startswith(SOURCE):
            return
        self._follow_tasks()
        name = self._name()
        if name is None:
            return
        # What is inside a function, like a comprehension, belongs to it.
        function = frame.f_code.co_qualname.partition(".<locals>")[0]
        line = f"{name}\t{frame.f_code.co_filename.removeprefix(SOURCE)}\t{function}\n"
        if line not in self._seen and not _is_importing(frame):
            self._seen.add(line)
            self._record.write(line)
            self._record.flush()

    def _name(self) -> str | None:
        name = request_name.get()
        if name is None and self.polling is not None and task_path.get()[: len(self.polling)] == self.polling:
            return WORKER
        return name

    def _follow_tasks(self) -> None:
        """From here on every task of this loop knows the tasks that started it."""
        loop = asyncio._get_running_loop()
        if loop is not None and loop is not self._loop:
            self._loop = loop
            loop.set_task_factory(self._task)

    def _task(
        self, loop: asyncio.AbstractEventLoop, coroutine: Any, /, context: Context | None = None
    ) -> asyncio.Task[Any]:
        self._tasks += 1
        context = copy_context() if context is None else context
        context.run(task_path.set, (*context.get(task_path, ()), self._tasks))
        return asyncio.Task(coroutine, loop=loop, context=context)


def _is_importing(frame: FrameType | None) -> bool:
    # The bodies of modules and classes are not functions.
    if frame is not None and not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        return True
    while frame is not None:
        if frame.f_code.co_filename == IMPORTING:
            return True
        frame = frame.f_back
    return False


def follow_requests() -> None:
    """Names the context of each request that the HTTP server hands to the application."""
    try:
        from granian.server import embed
    except ModuleNotFoundError:
        return  # A worker has no server.

    class Server(embed.Server):
        def __init__(self, target: Any, *arguments: Any, **options: Any):
            async def traced(scope: Any, receive: Any, send: Any) -> None:
                request = f"{scope.get('method')} {scope.get('path')}"
                request_name.set(next((name for name, path in REQUESTS if path.fullmatch(request)), None))
                await target(scope, receive, send)

            super().__init__(traced, *arguments, **options)

    embed.Server = Server  # type: ignore[misc]


def follow_polls(recorder: Recorder) -> None:
    """Finds the loop of the polls: its task, or the task that waits for the task of a poll."""
    import httpx

    send = httpx.AsyncClient.send

    async def traced(self: httpx.AsyncClient, request: httpx.Request, **options: Any) -> httpx.Response:
        if recorder.polling is None and POLL.fullmatch(f"{request.method} {request.url.path}"):
            recorder.polling = task_path.get()[:-1]
        return await send(self, request, **options)

    httpx.AsyncClient.send = traced  # type: ignore[method-assign]


def main() -> None:
    _, record, *arguments = sys.argv
    sys.argv = ["callsheet", *arguments]
    recorder = Recorder(open(record, "a", encoding="utf-8"))  # noqa: SIM115 (open until the process ends)
    follow_requests()
    follow_polls(recorder)
    threading.setprofile(recorder.on_call)
    sys.setprofile(recorder.on_call)
    runpy.run_module("callsheet", run_name="__main__")


if __name__ == "__main__":
    main()
