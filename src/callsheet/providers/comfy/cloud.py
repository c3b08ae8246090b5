"""`cloud`: Comfy Cloud, version 1 of its API.

Its API key opens the whole account, so it is sent to that one host only: a client without the key follows redirects to
fetch results. `/api/interrupt` would stop every run of the account, so it is never called.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, urljoin

from callsheet.providers.comfy import errors
from callsheet.providers.comfy.files import SharedFiles, saved_here, upload_refused, view_query
from callsheet.providers.comfy.graphs import marked_extra_data
from callsheet.providers.comfy.http import (
    LAST_CHECK_SECONDS,
    EngineHttp,
    json_of,
    pause,
    save_body,
    unreadable,
    within,
)
from callsheet.providers.comfy.marks import Marks
from callsheet.providers.comfy.outputs import outputs_of
from callsheet.providers.comfy.responses import no_output, outcome_from_socket, refuse_unless_taken, still_queued
from callsheet.providers.comfy.run_messages import Following, SocketImages
from callsheet.providers.comfy.self_hosted import Patience
from callsheet.providers.comfy.socket import EngineSocket, socket_address
from callsheet.providers.comfy.submission import submitted, to_its_end
from callsheet.providers.engine import (
    EngineDescription,
    EngineError,
    EngineRun,
    EngineUnreachable,
    FetchedOutput,
    NotStarted,
    Output,
    Watcher,
)
from callsheet.toolbox.logs import get_logger

log = get_logger(__name__)

# The values that the service returns, and the values of its specification.
_DONE = frozenset({"success", "completed"})
_FAILED = frozenset({"error", "failed", "non_retryable_error"})
_CANCELLED = frozenset({"cancelled", "canceled"})
_LOST = "lost"
_RUNNING = frozenset({"executing", "in_progress"})
_WAITING = frozenset({"submitted", "queued_limited", "queued_waiting", "pending", "waiting_to_dispatch"})
_OVER = frozenset({*_DONE, *_FAILED, *_CANCELLED, _LOST})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_REFUSALS = {
    401: ("cloud_key_refused", "Comfy Cloud does not accept the API key."),
    402: ("cloud_no_credits", "The Comfy Cloud account has no credits left."),
    403: ("cloud_key_refused", "Comfy Cloud does not accept the API key."),
    # This is not a rate limit, in spite of the status.
    429: ("cloud_inactive", "The Comfy Cloud subscription is not active."),
}
CANCEL_ATTEMPTS = 5
# The number of the account's newest runs among which a run is searched, and the number of runs that are read one by
# one.
LISTED_JOBS = 50
READ_JOBS = 10
# After a refusal, the account gets no job for this time, because it would be refused too.
REFUSED_SECONDS = 60.0


class ComfyCloud:
    provider = "cloud"

    def __init__(self, url: str, api_key: str, *, patience: Patience | None = None):
        self._patience = patience or Patience()
        self._http = EngineHttp(
            url, {"X-API-Key": api_key}, seconds=self._patience.response, retries=self._patience.retries
        )
        self._keyless = EngineHttp(url, seconds=self._patience.response)
        self._api_key = api_key
        address = f"{socket_address(url)}/ws?clientId={uuid.uuid4().hex}&token={quote(api_key, safe='')}"
        self._socket = EngineSocket(address)
        # The service's ids of our runs, and the runs of which there may be more than one.
        self._ids: dict[str, str] = {}
        self._sent: set[str] = set()
        self._doubtful: set[str] = set()
        self._refusal: tuple[float, EngineError] | None = None
        self._socket_images = SocketImages()
        self._shared = SharedFiles()
        self._marks = Marks()

    async def close(self) -> None:
        self._socket_images.close()
        await self._socket.close()
        await self._http.close()
        await self._keyless.close()

    async def describe(self) -> EngineDescription:
        if self._refusal is not None and time.monotonic() - self._refusal[0] < REFUSED_SECONDS:
            raise self._refusal[1]
        response = await self._http.call("GET", "/api/jobs?limit=1")
        if response.status_code in _REFUSALS:
            raise refused(response.status_code)
        if response.status_code >= 500:
            raise EngineUnreachable("Comfy Cloud returned an unexpected response.", status=response.status_code)
        return EngineDescription("Comfy Cloud v1")

    async def upload(self, path: Path, name: str, run_id: str) -> str:
        # The service stores files by content: folders are ignored, and the returned name counts.
        fields = {"type": "input", "overwrite": "true"}
        response = await self._http.upload("/api/upload/image", fields, name, path)
        body = json_of(response)
        if response.status_code in _REFUSALS:
            raise refused(response.status_code)
        if response.status_code != 200 or not isinstance(body, dict) or not body.get("name"):
            raise upload_refused(response.status_code)
        return str(body["name"])

    async def share(self, path: Path, name: str) -> str:
        # The service stores the same bytes once, but every upload is sent: only the service knows the name of the file.
        return await self._shared.place(
            name,
            lambda reference: self._http.again(lambda: self._has(reference)),
            lambda: self.upload(path, name, ""),
        )

    async def _has(self, reference: str) -> bool:
        query = view_query(Output("", reference, "", "input"))
        async with self._http.stream("GET", f"/api/view?{query}", follow_redirects=False) as response:
            return response.status_code == 200 or response.status_code in _REDIRECTS

    async def run(self, run: EngineRun, watcher: Watcher) -> Sequence[Output]:
        while True:
            try:
                return await self._attempt(run, watcher)
            except EngineError as error:
                if not self._marks.learn(error, run.graph):
                    raise
                await self.cancel(run.id)
                self._ids.pop(run.id, None)
                self._sent.discard(run.id)

    async def _attempt(self, run: EngineRun, watcher: Watcher) -> Sequence[Output]:
        following = Following(run, watcher, self._socket_images)
        following.missed = not await self._socket.ready()
        with ExitStack() as stack:
            with self._socket.collecting():
                remote = self._ids[run.id] = await submitted(
                    lambda: to_its_end(self._send(run)), lambda: self._find(run.id), self._patience.absent
                )
                following.run = EngineRun(remote, run.graph, run.output_node)
                stack.enter_context(self._socket.following(following))
            job = await self._finished(following, run.id)
            # If the response to a submission was lost, its run may have ended without a message to this socket.
            if following.has_started:
                await self._socket.wait_for_last_messages(following, self._patience.last_messages)
        outputs = [*following.images(), *outputs_of(job.get("outputs"), run.output_node)]
        if not outputs:
            raise no_output(following)
        return outputs

    def id_of(self, run_id: str) -> str:
        return self._ids.get(run_id, run_id)

    async def cancel(self, run_id: str) -> bool:
        """Cancels a run. A running run may continue to its end: by its specification the cloud removes only waiting
        runs, by its guide also running ones. The one call that surely stops them would stop those of all users.
        """
        for attempt in range(1, CANCEL_ATTEMPTS + 1):
            with suppress(EngineError):
                # This also finds a run whose response was lost, or that a killed agent submitted.
                remote = self._ids.get(run_id) or await self._find(run_id)
                if remote is None or await self._is_taken_out(remote):
                    return True
            await pause(attempt, 0.2, 2.0)
        log.warning("engine.not_cancelled", run=run_id)
        # One of many concurrent runs.
        return True

    async def fetch(self, output: Output, target: Path) -> FetchedOutput:
        here = await saved_here(output, target)
        if here is not None:
            return here
        return await self._http.again(lambda: self._fetch(output, target))

    async def forget(self, run_id: str) -> None:
        self._socket_images.forget(run_id)
        known = self._ids.pop(run_id, None)
        if run_id in self._doubtful:
            with suppress(EngineError):
                for stray in await self._marked(run_id):
                    if stray != known:
                        await self._is_taken_out(stray)
        self._sent.discard(run_id)
        self._doubtful.discard(run_id)

    async def _fetch(self, output: Output, target: Path) -> FetchedOutput:
        path = f"/api/view?{view_query(output)}"
        async with self._http.stream("GET", path, follow_redirects=False) as response:
            if response.status_code == 200:
                return await save_body(response, target)
            location = response.headers.get("location", "")
            if response.status_code not in _REDIRECTS or not location:
                raise unreadable(response.status_code)
        return await self._keyless.save(urljoin(f"{self._http.url}{path}", location), target, follow_redirects=True)

    async def _send(self, run: EngineRun) -> str:
        if run.id in self._sent:
            # A run that is not found the first time may still appear later.
            self._doubtful.add(run.id)
        self._sent.add(run.id)
        extra = {**marked_extra_data(run.extra_data, run.id), "api_key_comfy_org": self._api_key}
        response = await self._http.call(
            "POST", "/api/prompt", json={"prompt": self._marks.put(run), "extra_data": extra}
        )
        if response.status_code in _REFUSALS:
            self._refusal = (time.monotonic(), refused(response.status_code))
            raise self._refusal[1]
        body = json_of(response)
        refuse_unless_taken(response.status_code, body, run)
        assert isinstance(body, dict)
        if not body.get("prompt_id"):
            raise EngineUnreachable("Comfy Cloud did not return the id of the run.")
        # The id is stored at once, also if the run was canceled meanwhile: `cancel` needs it.
        self._ids[run.id] = str(body["prompt_id"])
        return self._ids[run.id]

    async def _find(self, run_id: str) -> str | None:
        return next(iter(await self._marked(run_id)), None)

    async def _marked(self, run_id: str) -> list[str]:
        """The account's runs that carry our id: as the id of their workflow, if the list shows it, or in the graph
        itself.
        """
        listed = (await self._http.get_object(f"/api/jobs?limit={LISTED_JOBS}")).get("jobs")
        jobs = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
        found = [str(each["id"]) for each in jobs if each.get("workflow_id") == run_id and each.get("id")]
        if found:
            return found
        unmarked = [str(each["id"]) for each in jobs if not each.get("workflow_id") and each.get("id")][:READ_JOBS]
        return [each for each in unmarked if run_id in json.dumps((await self._job_or_nothing(each)).get("workflow"))]

    async def _is_taken_out(self, remote: str) -> bool:
        await self._http.call("POST", "/api/queue", json={"delete": [remote]})
        response = await self._http.call("GET", f"/api/job/{quote(remote, safe='')}/status")
        body = json_of(response)
        status = str(body.get("status")) if isinstance(body, dict) else ""
        return response.status_code == 404 or status in _OVER or status.startswith("cancel")

    async def _finished(self, following: Following, own_id: str) -> Mapping[str, Any]:
        reached = queued = time.monotonic()
        before = ""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._patience.poll):
                    await following.over.wait()
            if following.over.is_set():
                # The status is older than the messages of the socket.
                await asyncio.sleep(min(0.05, self._patience.poll))
            waits = before in _WAITING and not following.has_started
            left = self._patience.absent - (time.monotonic() - reached)
            try:
                async with within(max(left, min(LAST_CHECK_SECONDS, self._patience.absent))):
                    ended = await self._ended(following, waits)
            except EngineUnreachable as away:
                if time.monotonic() - reached >= self._patience.absent:
                    raise (errors.away_while_queued(away) if waits else away) from None
                await pause(1, min(0.5, self._patience.poll))
                continue
            reached = time.monotonic()
            if isinstance(ended, str):
                # An account may have more jobs than its plan runs at once: waiting is not a sign of a problem.
                if ended != before or ended in _WAITING:
                    following.alive()
                before = ended
                self._refuse_to_stall(following)
                if not following.has_started and reached - queued > self._patience.queue:
                    await self.cancel(own_id)
                    raise still_queued(self._patience.queue)
            else:
                return ended

    async def _ended(self, following: Following, waits: bool) -> str | Mapping[str, Any]:
        """The ended job, or its progress. `waits`: until now the run was only seen waiting."""
        run_id = following.run.id
        response = await self._http.call("GET", f"/api/job/{quote(run_id, safe='')}/status")
        body = json_of(response)
        if response.status_code == 404:
            if waits and not following.has_started:
                raise lost_in_queue(run_id)
            return outcome_from_socket(following)
        if response.status_code in _REFUSALS:
            raise refused(response.status_code)
        if response.status_code != 200 or not isinstance(body, dict):
            raise EngineUnreachable("Comfy Cloud returned an unexpected response.", status=response.status_code)
        status = str(body.get("status"))
        if status in _RUNNING:
            following.note_start()
        if status in _DONE:
            return await self._job(run_id)
        waits = waits and not following.has_started
        if status == _LOST:
            raise lost_in_queue(run_id) if waits else errors.lost(run_id)
        if status in _CANCELLED:
            raise errors.lost_while_queued(run_id, was_connected=True) if waits else errors.interrupted()
        if status in _FAILED:
            raise self._failure(await self._job_or_nothing(run_id), body, following)
        return status

    async def _job(self, run_id: str) -> Mapping[str, Any]:
        response = await self._http.call("GET", f"/api/jobs/{quote(run_id, safe='')}")
        body = json_of(response)
        if response.status_code == 200 and isinstance(body, dict):
            return body
        # This is deprecated, but used if the newer route does not exist yet.
        older = await self._http.get_object(f"/api/history_v2/{quote(run_id, safe='')}")
        entry = older.get(run_id, older)
        return entry if isinstance(entry, dict) else {}

    async def _job_or_nothing(self, run_id: str) -> Mapping[str, Any]:
        with suppress(EngineError):
            return await self._job(run_id)
        return {}

    def _failure(self, job: Mapping[str, Any], status: Mapping[str, Any], following: Following) -> EngineError:
        error = job.get("execution_error") or following.error
        if isinstance(error, dict):
            return errors.of_execution_error(error)
        message = status.get("error_message") or status.get("error")
        return errors.of_execution_error({"exception_message": str(message or ""), "exception_type": "Error"})

    def _refuse_to_stall(self, following: Following) -> None:
        silent = time.monotonic() - following.last_sign
        if silent > self._patience.stall:
            # One of many runs on machines that are not ours is lost. This is not a reason to accept no more.
            raise EngineError(
                "run_stalled", "Comfy Cloud stopped working on the run.", retryable=True, details={"seconds": silent}
            )


def lost_in_queue(run_id: str) -> NotStarted:
    return NotStarted("run_lost", "Comfy Cloud lost the run before it started.", run=run_id)


def refused(status: int) -> EngineError:
    type, message = _REFUSALS[status]
    return EngineError(type, message, details={"status": status})
