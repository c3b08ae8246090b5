"""`self_hosted`: a ComfyUI server that this machine reaches.

What it says about a run can be lost at any time: the socket, the history entry, the whole process. So a run is
followed on its socket and asked for every two seconds; a run that is in neither queue nor history is lost, and an
engine that answers but moves nothing is stuck.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import time
import uuid
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from callsheet.providers import engine_errors as errors
from callsheet.providers.comfy_http import EngineHttp, json_of
from callsheet.providers.comfy_socket import EngineSocket
from callsheet.providers.engine import (
    Description,
    EngineError,
    EngineStuck,
    EngineUnreachable,
    Fetched,
    Output,
    Run,
    Watcher,
)
from callsheet.providers.following import Following
from callsheet.providers.graphs import checked_extra_data, folder_of
from callsheet.providers.outputs import outputs_of, refuse_foreign
from callsheet.providers.texts import save_text
from callsheet.toolbox.logs import get_logger

log = get_logger(__name__)

# Before this, /interrupt does not look at the id and stops whatever runs.
INTERRUPTS_BY_ID = (0, 3, 57)
POLL_SECONDS = 2.0
# Right after the socket said it is over, the history entry is there in a few milliseconds.
SETTLE_SECONDS = 0.02
CANCEL_ATTEMPTS = 5
SUBMIT_ATTEMPTS = 3
SUBMIT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Patience:
    """How long an engine may be silent, in seconds."""

    stall: float = 600.0
    absent: float = 120.0
    poll: float = POLL_SECONDS


class ComfyUI:
    provider = "self_hosted"

    def __init__(self, url: str, *, patience: Patience | None = None, directory: Path | None = None):
        self._http = EngineHttp(url)
        self._patience = patience or Patience()
        self._directory = directory
        self._client_id = uuid.uuid4().hex
        self._socket = EngineSocket(f"{socket_address(url)}/ws?clientId={self._client_id}")
        self._version: tuple[int, ...] | None = None
        self._stuck_on: str | None = None

    async def close(self) -> None:
        await self._socket.close()
        await self._http.close()

    async def describe(self) -> Description:
        stats = await self._http.get_object("/system_stats")
        system = stats.get("system") if isinstance(stats.get("system"), dict) else {}
        assert isinstance(system, dict)
        if self._stuck_on is not None:
            if await self._place(self._stuck_on) is not None:
                raise EngineStuck("The engine answers but runs nothing any more.", run=self._stuck_on)
            self._stuck_on = None
        version = system.get("comfyui_version")
        self._version = version_of(version)
        devices = [each.get("name") for each in stats.get("devices") or [] if isinstance(each, dict)]
        return Description(str(version) if version else None, {"devices": devices})

    async def upload(self, path: Path, name: str, run_id: str) -> str:
        fields = {"subfolder": folder_of(run_id), "type": "input", "overwrite": "true"}
        with path.open("rb") as file:
            answer = await self._http.call("POST", "/upload/image", data=fields, files={"image": (name, file)})
        body = json_of(answer)
        if answer.status_code != 200 or not isinstance(body, dict) or not body.get("name"):
            raise upload_refused(answer.status_code)
        # The engine may have given it another name.
        return "/".join(part for part in (str(body.get("subfolder") or ""), str(body["name"])) if part)

    async def run(self, run: Run, watcher: Watcher) -> Sequence[Output]:
        following = Following(run, watcher)
        with self._socket.following(following):
            await self._socket.ready()
            await self._submit(run)
            entry = await self._finished(following)
        error = errors.of_history(entry)
        if error is not None:
            raise error
        outputs = outputs_of(entry.get("outputs"), run.output_node)
        if not outputs:
            raise no_output(following)
        refuse_foreign(outputs, run.graph, run.id, errors.cached_nodes(entry) | following.cached)
        return outputs

    async def cancel(self, run_id: str) -> None:
        # Again and again, because it may be anywhere between submit, queue and executor.
        for attempt in range(CANCEL_ATTEMPTS):
            with suppress(EngineError):
                await self._http.call("POST", "/queue", json={"delete": [run_id]})
                if (self._version or (0,)) >= INTERRUPTS_BY_ID:
                    await self._http.call("POST", "/interrupt", json={"prompt_id": run_id})
                if await self._place(run_id) is None:
                    return
            await asyncio.sleep(0.1 * 2**attempt)
        log.warning("engine.not_cancelled", run=run_id)

    async def fetch(self, output: Output, target: Path) -> Fetched:
        if output.text is not None:
            return save_text(output.text, target)
        address = f"/view?{view_query(output)}"
        for attempt in range(SUBMIT_ATTEMPTS - 1):
            try:
                return await self._http.save(address, target)
            except EngineUnreachable:
                await asyncio.sleep(0.5 * 2**attempt)
        return await self._http.save(address, target)

    async def forget(self, run_id: str) -> None:
        with suppress(EngineError):
            await self._http.call("POST", "/history", json={"delete": [run_id]})
        if self._directory is not None:
            for store in ("input", "output"):
                folder = self._directory / store / folder_of(run_id)
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def _submit(self, run: Run) -> None:
        body = {
            "prompt": run.graph,
            "prompt_id": run.id,
            # Without one, a run answered from the cache has no outputs in its history.
            "client_id": self._client_id,
            "extra_data": checked_extra_data(run.extra_data),
        }
        for attempt in range(SUBMIT_ATTEMPTS):
            try:
                answer = await _to_its_end(self._http.call("POST", "/prompt", json=body))
            except EngineUnreachable:
                # It may have been taken: the same id twice would run twice.
                await asyncio.sleep(0.5 * 2**attempt)
                if await self._is_known(run.id):
                    return
                continue
            refuse_unless_taken(answer.status_code, json_of(answer), run)
            return
        raise EngineUnreachable("The engine does not take the run.")

    async def _is_known(self, run_id: str) -> bool:
        with suppress(EngineError):
            return await self._place(run_id) is not None or await self._entry(run_id) is not None
        return False

    async def _finished(self, following: Following) -> Mapping[str, Any]:
        run_id, misses, looks = following.run.id, 0, 0
        reached = time.monotonic()
        seen: object = None
        while True:
            looks = await self._wait(following, looks)
            try:
                entry = await self._entry(run_id)
                place = None if entry is not None else await self._place(run_id)
            except EngineUnreachable:
                if time.monotonic() - reached > self._patience.absent:
                    raise
                continue
            reached = time.monotonic()
            if entry is not None:
                return entry
            # Twice, because it may have moved from queue to history between the two questions.
            misses = misses + 1 if place is None else 0
            if misses > 1:
                return self._told_by_socket(following)
            if place is not None:
                if place != seen:
                    following.alive()
                    seen = place
                if place[0] == "running":
                    following.begun()
                await self._refuse_to_stall(following)

    async def _wait(self, following: Following, looks: int) -> int:
        """Until the socket says that it is over, or it is time to ask. Answers how often it was asked after the end."""
        if following.over.is_set():
            await asyncio.sleep(min(self._patience.poll, SETTLE_SECONDS * 2**looks) if looks else 0)
            return looks + 1
        with suppress(TimeoutError):
            async with asyncio.timeout(self._patience.poll):
                await following.over.wait()
                return 1
        return 0

    async def _refuse_to_stall(self, following: Following) -> None:
        silent = time.monotonic() - following.last_sign
        if silent > self._patience.stall:
            self._stuck_on = following.run.id
            raise EngineStuck("The engine stopped working on the run.", silent_seconds=round(silent))

    def _told_by_socket(self, following: Following) -> Mapping[str, Any]:
        """In neither queue nor history. Where the socket told the whole story, somebody cleared the history."""
        if following.interrupted:
            raise errors.interrupted()
        if following.succeeded:
            return {"outputs": following.outputs, "status": {"status_str": "success"}}
        if following.error is not None:
            raise errors.of_execution_error(following.error)
        raise errors.lost(following.run.id)

    async def _entry(self, run_id: str) -> Mapping[str, Any] | None:
        found = (await self._http.get_object(f"/history/{quote(run_id, safe='')}")).get(run_id)
        return found if isinstance(found, dict) else None

    async def _place(self, run_id: str) -> tuple[object, ...] | None:
        """Where it is in the queue, with what runs and how many wait: any change of these is a sign of life."""
        queue = await self._http.get_object("/queue")
        running, pending = (_ids(queue.get(name)) for name in ("queue_running", "queue_pending"))
        if run_id in running:
            return "running", *running
        return ("pending", len(pending), *running) if run_id in pending else None


async def _to_its_end(call: Coroutine[Any, Any, httpx.Response]) -> httpx.Response:
    """Also when nobody waits any more: a prompt that arrives after it was cancelled would run for nobody."""
    task = asyncio.create_task(call)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task}, timeout=SUBMIT_SECONDS)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        raise


def refuse_unless_taken(status: int, body: object, run: Run) -> None:
    if status >= 502:
        raise EngineUnreachable("The engine does not take the run.", status=status)
    if status != 200 or not isinstance(body, dict):
        raise errors.of_refused_prompt(status, body)
    problem = errors.of_node_errors(body.get("node_errors"), run.output_node)
    if problem is not None:
        raise problem


def upload_refused(status: int) -> EngineError:
    if status == errors.TOO_LARGE:
        message = "The file is larger than the engine takes (ComfyUI: --max-upload-size)."
        return EngineError("input_too_large", message, details={"status": status})
    return EngineError(
        "upload_refused", "The engine did not take a file.", retryable=status >= 500, details={"status": status}
    )


def no_output(following: Following) -> EngineError:
    """A run may succeed without a result: a node was blocked, or the wrong one is named as output."""
    if following.error is not None:
        return errors.of_execution_error(following.error)
    return EngineError(
        "no_output", "The run ended without a result.", details={"output_node_id": following.run.output_node}
    )


def socket_address(url: str) -> str:
    parts = urlsplit(url)
    return f"{'wss' if parts.scheme == 'https' else 'ws'}://{parts.netloc}{parts.path.rstrip('/')}"


def version_of(text: object) -> tuple[int, ...] | None:
    """As numbers to compare; None where it cannot be told, which is as good as very old."""
    found = re.match(r"v?(\d+)\.(\d+)\.(\d+)", text) if isinstance(text, str) else None
    return tuple(map(int, found.groups())) if found else None


def view_query(output: Output) -> str:
    """Not `filename=folder/name`: the engine looks at the last part only."""
    fields = {"filename": output.name, "subfolder": output.folder, "type": output.store}
    return "&".join(f"{name}={quote(value, safe='')}" for name, value in fields.items())


def _ids(entries: object) -> list[str]:
    found = entries if isinstance(entries, list) else []
    return [str(entry[1]) for entry in found if isinstance(entry, list) and len(entry) > 1]
