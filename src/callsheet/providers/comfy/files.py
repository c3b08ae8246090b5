"""Uploads files to a ComfyUI server, once for files that many runs use, and fetches its outputs."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote
from weakref import WeakValueDictionary

from callsheet.providers.comfy import errors
from callsheet.providers.comfy.graphs import SHARED_FOLDER, folder_of
from callsheet.providers.comfy.http import EngineHttp, json_of
from callsheet.providers.engine import EngineError, FetchedOutput, Output
from callsheet.providers.texts import save_text
from callsheet.wire.plurals import counted

# The limit is not looked up for smaller files: ComfyUI's default is 100 MB.
CHECKED_FROM_BYTES = 1_000_000
# Bytes that a form adds to a file.
FORM_BYTES = 4096
RAISE_LIMIT = "Start ComfyUI with a larger --max-upload-size, which is in megabytes."


class EngineFiles:
    """Files of an engine. `directory`: the engine's directory, if the worker can access it."""

    def __init__(self, http: EngineHttp, directory: Path | None):
        self._http = http
        self._directory = directory
        self._shared = SharedFiles()

    async def upload(self, path: Path, name: str, run_id: str) -> str:
        return await self._upload(path, name, {"subfolder": folder_of(run_id), "type": "input", "overwrite": "true"})

    async def share(self, path: Path, name: str) -> str:
        # The upload does not use `overwrite`: ComfyUI would empty the file first, while a node of another run may be
        # reading it. If the engine has the same bytes, it keeps its file; otherwise it stores them under another name.
        fields = {"subfolder": SHARED_FOLDER, "type": "input"}
        size = (await asyncio.to_thread(path.stat)).st_size
        return await self._shared.place(
            name,
            lambda reference: self._has(reference, size),
            lambda: self._upload(path, name, fields),
            f"{SHARED_FOLDER}/{name}",
        )

    async def fetch(self, output: Output, target: Path) -> FetchedOutput:
        here = await saved_here(output, target)
        if here is not None:
            return here
        address = f"/view?{view_query(output)}"
        return await self._http.again(lambda: self._http.save(address, target))

    async def _has(self, reference: str, size: int) -> bool:
        if self._directory is not None:
            # The file is marked before the look-up, so that no other run removes it.
            await asyncio.to_thread(mark_used, self._directory / "input" / reference)
        folder, _, name = reference.rpartition("/")
        address = f"/view?{view_query(Output('', name, folder, 'input'))}"
        plain = {"Accept-Encoding": "identity"}
        response = await self._http.again(lambda: self._http.call("HEAD", address, headers=plain))
        return response.status_code == 200 and response.headers.get("content-length") == str(size)

    async def _upload(self, path: Path, name: str, fields: Mapping[str, str]) -> str:
        await self._refuse_too_large((await asyncio.to_thread(path.stat)).st_size)
        response = await self._http.upload("/upload/image", fields, name, path)
        body = json_of(response)
        if response.status_code != 200 or not isinstance(body, dict) or not body.get("name"):
            raise upload_refused(response.status_code)
        # The engine may have chosen another name.
        return "/".join(part for part in (str(body.get("subfolder") or ""), str(body["name"])) if part)

    async def _refuse_too_large(self, size: int) -> None:
        """Refuses before gigabytes are sent. Asks for the limit each time, because a restart may have changed it."""
        if size < CHECKED_FROM_BYTES:
            return
        response = await self._http.again(lambda: self._http.call("GET", "/features"))
        body = json_of(response)
        limit = body.get("max_upload_size") if response.status_code == 200 and isinstance(body, dict) else None
        if isinstance(limit, int | float) and size + FORM_BYTES > limit:
            raise upload_refused(errors.TOO_LARGE, size=size, limit=int(limit))


def upload_refused(status: int, **known: int) -> EngineError:
    if status == errors.TOO_LARGE:
        sizes = f": it has {counted(known['size'], 'byte')}, and the limit is {known['limit']}" if known else ""
        message = f"A file of the job is larger than the engine takes{sizes}."
        details = {"status": status, **known, "advice": RAISE_LIMIT}
        return EngineError("input_too_large", message, details=details)
    return EngineError(
        "upload_refused", "The engine did not take a file.", retryable=status >= 500, details={"status": status}
    )


async def saved_here(output: Output, target: Path) -> FetchedOutput | None:
    """Saves an output that was already received: a text, or an image from the socket. None if it must be fetched."""
    if output.text is not None:
        return save_text(output.text, target)
    return await asyncio.to_thread(output.kept.save, target) if output.kept is not None else None


def view_query(output: Output) -> str:
    """The query of /view. The folder is a separate field, because the engine uses only the last part of `filename`."""
    fields = {"filename": output.name, "subfolder": output.folder, "type": output.store}
    return "&".join(f"{name}={quote(value, safe='')}" for name, value in fields.items())


DAY_SECONDS = 86_400


class SharedFiles:
    """The names of shared files at one engine. Each use checks whether the engine still has the file: it may have
    been deleted.
    """

    def __init__(self) -> None:
        self._references: dict[str, str] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def place(
        self,
        name: str,
        has: Callable[[str], Awaitable[bool]],
        upload: Callable[[], Awaitable[str]],
        expected: str | None = None,
    ) -> str:
        """The name of the file in graphs. Two concurrent runs with the same file upload it once. `expected`: the
        engine's name before the first request for it.
        """
        lock = self._locks.setdefault(name, asyncio.Lock())
        async with lock:
            reference = self._references.get(name, expected)
            if reference is None or not await has(reference):
                reference = self._references[name] = await upload()
            return reference


def mark_used(path: Path) -> None:
    """Updates the time of last use. A missing file, or a file of another system user, causes no error."""
    with suppress(OSError):
        os.utime(path)


def remove_unused(folder: Path, days: int, now: float | None = None) -> None:
    before = (time.time() if now is None else now) - days * DAY_SECONDS
    with suppress(OSError):
        for path in folder.iterdir():
            with suppress(OSError):
                # If the use of a file cannot be marked, its age means nothing.
                if path.is_file() and path.stat().st_mtime < before and os.access(path, os.W_OK):
                    path.unlink()
