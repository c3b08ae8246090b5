"""`cloud`: Comfy Cloud, version 1 of its API.

Its key opens the whole account, so it goes to that one host only: results are fetched from wherever a redirect
points to by a client that does not have it. `/api/interrupt` would stop every run of the account and is never called.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, urljoin

from callsheet.providers import engine_errors as errors
from callsheet.providers.comfy_http import EngineHttp, json_of, save_body, unreadable
from callsheet.providers.comfy_socket import EngineSocket
from callsheet.providers.comfyui import (
    Patience,
    no_output,
    refuse_unless_taken,
    socket_address,
    upload_refused,
    view_query,
)
from callsheet.providers.engine import (
    Description,
    EngineError,
    EngineUnreachable,
    Fetched,
    Output,
    Run,
    Watcher,
)
from callsheet.providers.following import Following
from callsheet.providers.graphs import checked_extra_data
from callsheet.providers.outputs import outputs_of
from callsheet.providers.texts import save_text

# What it says in practice, and what its specification says.
_DONE = frozenset({"success", "completed"})
_FAILED = frozenset({"error", "failed", "non_retryable_error"})
_CANCELLED = frozenset({"cancelled", "canceled"})
_LOST = "lost"
_RUNNING = frozenset({"executing", "in_progress"})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_REFUSALS = {
    401: ("cloud_key_refused", "Comfy Cloud does not accept the API key."),
    402: ("cloud_no_credits", "The Comfy Cloud account has no credits left."),
    403: ("cloud_key_refused", "Comfy Cloud does not accept the API key."),
    # Not a rate limit, whatever the number says.
    429: ("cloud_inactive", "The Comfy Cloud subscription is not active."),
}
ATTEMPTS = 3


class ComfyCloud:
    provider = "cloud"

    def __init__(self, url: str, api_key: str, *, patience: Patience | None = None):
        self._http = EngineHttp(url, {"X-API-Key": api_key})
        self._keyless = EngineHttp(url)
        self._api_key = api_key
        self._patience = patience or Patience()
        address = f"{socket_address(url)}/ws?clientId={uuid.uuid4().hex}&token={quote(api_key, safe='')}"
        self._socket = EngineSocket(address)
        # Its own ids of our runs.
        self._ids: dict[str, str] = {}

    async def close(self) -> None:
        await self._socket.close()
        await self._http.close()
        await self._keyless.close()

    async def describe(self) -> Description:
        answer = await self._http.call("GET", "/api/jobs?limit=1")
        if answer.status_code in (401, 403):
            raise refused(answer.status_code)
        if answer.status_code >= 500:
            raise EngineUnreachable("Comfy Cloud does not answer as it should.", status=answer.status_code)
        return Description("Comfy Cloud v1")

    async def upload(self, path: Path, name: str, run_id: str) -> str:
        # Content-addressed on the other side: folders are ignored, the name that comes back is what counts.
        with path.open("rb") as file:
            answer = await self._http.call(
                "POST", "/api/upload/image", data={"type": "input", "overwrite": "true"}, files={"image": (name, file)}
            )
        body = json_of(answer)
        if answer.status_code in _REFUSALS:
            raise refused(answer.status_code)
        if answer.status_code != 200 or not isinstance(body, dict) or not body.get("name"):
            raise upload_refused(answer.status_code)
        return str(body["name"])

    async def run(self, run: Run, watcher: Watcher) -> Sequence[Output]:
        following = Following(run, watcher)
        await self._socket.ready()
        remote = await self._submit(run)
        self._ids[run.id] = remote
        following.run = Run(remote, run.graph, run.output_node)
        with self._socket.following(following):
            job = await self._finished(following)
        outputs = outputs_of(job.get("outputs"), run.output_node)
        if not outputs:
            raise no_output(following)
        return outputs

    async def cancel(self, run_id: str) -> None:
        for attempt in range(ATTEMPTS):
            with suppress(EngineError):
                await self._http.call("POST", "/api/queue", json={"delete": [self._ids.get(run_id, run_id)]})
                return
            await asyncio.sleep(0.2 * 2**attempt)

    async def fetch(self, output: Output, target: Path) -> Fetched:
        if output.text is not None:
            return save_text(output.text, target)
        for attempt in range(ATTEMPTS - 1):
            try:
                return await self._fetch(output, target)
            except EngineUnreachable:
                await asyncio.sleep(0.5 * 2**attempt)
        return await self._fetch(output, target)

    async def forget(self, run_id: str) -> None:
        self._ids.pop(run_id, None)

    async def _fetch(self, output: Output, target: Path) -> Fetched:
        path = f"/api/view?{view_query(output)}"
        async with self._http.stream("GET", path, follow_redirects=False) as answer:
            if answer.status_code == 200:
                return await save_body(answer, target)
            location = answer.headers.get("location", "")
            if answer.status_code not in _REDIRECTS or not location:
                raise unreadable(answer.status_code)
        return await self._keyless.save(urljoin(f"{self._http.url}{path}", location), target, follow_redirects=True)

    async def _submit(self, run: Run) -> str:
        extra = {**checked_extra_data(run.extra_data), "api_key_comfy_org": self._api_key}
        answer = await self._http.call("POST", "/api/prompt", json={"prompt": run.graph, "extra_data": extra})
        if answer.status_code in _REFUSALS:
            raise refused(answer.status_code)
        body = json_of(answer)
        refuse_unless_taken(answer.status_code, body, run)
        assert isinstance(body, dict)
        if not body.get("prompt_id"):
            raise EngineUnreachable("Comfy Cloud does not say what it calls the run.")
        return str(body["prompt_id"])

    async def _finished(self, following: Following) -> Mapping[str, Any]:
        reached, before = time.monotonic(), ""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._patience.poll):
                    await following.over.wait()
            if following.over.is_set():
                # The status lags behind the socket.
                await asyncio.sleep(min(0.05, self._patience.poll))
            try:
                ended = await self._ended(following)
            except EngineUnreachable:
                if time.monotonic() - reached > self._patience.absent:
                    raise
                await asyncio.sleep(min(0.2, self._patience.poll))
                continue
            reached = time.monotonic()
            if isinstance(ended, str):
                if ended != before:
                    following.alive()
                before = ended
                self._refuse_to_stall(following)
            else:
                return ended

    async def _ended(self, following: Following) -> str | Mapping[str, Any]:
        """The job, or how far it is."""
        run_id = following.run.id
        answer = await self._http.call("GET", f"/api/job/{quote(run_id, safe='')}/status")
        body = json_of(answer)
        if answer.status_code == 404:
            raise errors.lost(run_id)
        if answer.status_code in _REFUSALS:
            raise refused(answer.status_code)
        if answer.status_code != 200 or not isinstance(body, dict):
            raise EngineUnreachable("Comfy Cloud does not answer as it should.", status=answer.status_code)
        status = str(body.get("status"))
        if status in _RUNNING:
            following.begun()
        if status in _DONE:
            return await self._job(run_id)
        if status == _LOST:
            raise errors.lost(run_id)
        if status in _CANCELLED:
            raise errors.interrupted()
        if status in _FAILED:
            raise self._failure(await self._job_or_nothing(run_id), body, following)
        return status

    async def _job(self, run_id: str) -> Mapping[str, Any]:
        answer = await self._http.call("GET", f"/api/jobs/{quote(run_id, safe='')}")
        body = json_of(answer)
        if answer.status_code == 200 and isinstance(body, dict):
            return body
        # Deprecated, but where the newer one is not there yet.
        older = await self._http.get_object(f"/api/history_v2/{quote(run_id, safe='')}")
        entry = older.get(run_id, older)
        return entry if isinstance(entry, dict) else {}

    async def _job_or_nothing(self, run_id: str) -> Mapping[str, Any]:
        with suppress(EngineError):
            return await self._job(run_id)
        return {}

    def _failure(self, job: Mapping[str, Any], status: Mapping[str, Any], following: Following) -> EngineError:
        told = job.get("execution_error") or following.error
        if isinstance(told, dict):
            return errors.of_execution_error(told)
        said = status.get("error_message") or status.get("error")
        return errors.of_execution_error({"exception_message": str(said or ""), "exception_type": "Error"})

    def _refuse_to_stall(self, following: Following) -> None:
        silent = time.monotonic() - following.last_sign
        if silent > self._patience.stall:
            # One run of many on machines that are not ours: no reason to take no more.
            raise EngineError(
                "run_stalled", "Comfy Cloud stopped working on the run.", retryable=True, details={"seconds": silent}
            )


def refused(status: int) -> EngineError:
    type, message = _REFUSALS[status]
    return EngineError(type, message, details={"status": status})
