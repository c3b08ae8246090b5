"""`self_hosted`: a ComfyUI server that this machine reaches.

Any information about a run can be lost at any time: the socket, the history entry, the whole process. So a run is
followed on its socket and polled every two seconds. A run that is in neither queue nor history is lost. An engine that
responds without progress is stuck.
"""

from __future__ import annotations

import asyncio
import shutil
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote

from callsheet.providers.comfy import errors
from callsheet.providers.comfy.files import EngineFiles, remove_unused
from callsheet.providers.comfy.graphs import SHARED_FOLDER, checked_extra_data, folder_of, marked_nodes
from callsheet.providers.comfy.http import LAST_CHECK_SECONDS, EngineHttp, json_of, pause, within
from callsheet.providers.comfy.inventory import OLDEST, read_inventory, too_old, version_of
from callsheet.providers.comfy.marks import EarlierOutputs, Marks
from callsheet.providers.comfy.outputs import files_of, outputs_of, remove_files
from callsheet.providers.comfy.responses import (
    QueuePlace,
    RunSigns,
    ids_in,
    is_idle,
    memory_in,
    no_output,
    outcome_from_socket,
    place_in,
    refuse_unless_taken,
    still_queued,
    waits_in,
)
from callsheet.providers.comfy.run_messages import Following, SocketImages
from callsheet.providers.comfy.socket import EngineSocket, socket_address
from callsheet.providers.comfy.submission import submitted, to_its_end
from callsheet.providers.engine import (
    EngineDescription,
    EngineError,
    EngineRun,
    EngineStuck,
    EngineUnreachable,
    FetchedOutput,
    Inventory,
    Output,
    Watcher,
)
from callsheet.toolbox.logs import get_logger

log = get_logger(__name__)

# Before this version, /interrupt ignores the id and stops any current run.
INTERRUPTS_BY_ID = (0, 3, 57)
POLL_SECONDS = 2.0
# The history entry exists a few milliseconds after the socket reported the end.
SETTLE_SECONDS = 0.02
CANCEL_ATTEMPTS = 5
# The number of times that a silent engine is asked for its memory before it counts as stuck.
MEMORY_CHECKS = 20
# The share of the short limit after which a new connection must have received the message with the current node.
SETTLED = 4
# Time that a shared file is kept after its last use.
ASSET_DAYS = 7
PREVIEWS = "auto"


@dataclass(frozen=True, slots=True)
class Patience:
    """How long an engine may be silent, in seconds, and how often calls are repeated."""

    stall: float = 600.0
    absent: float = 120.0
    poll: float = POLL_SECONDS
    # While no node was started.
    idle: float = 120.0
    # While runs of other clients are ahead of our run.
    queue: float = 900.0
    # Until the next piece of a response.
    response: float = 60.0
    # Until the next message of a run that has ended.
    last_messages: float = 10.0
    # How often an upload or a fetch is repeated after its connection failed.
    retries: int = 3


class ComfyUI:
    provider = "self_hosted"

    def __init__(
        self,
        url: str,
        *,
        patience: Patience | None = None,
        directory: Path | None = None,
        asset_days: int = ASSET_DAYS,
        previews: str = PREVIEWS,
    ):
        self.url = url
        self._patience = patience or Patience()
        waits = self._patience
        self._http = EngineHttp(
            url, seconds=min(waits.response, waits.absent), retries=waits.retries, absent_seconds=waits.absent
        )
        self._directory = directory
        self._asset_days = asset_days
        self._previews = previews
        self._files = EngineFiles(self._http, directory)
        self._client_id = uuid.uuid4().hex
        self._socket = EngineSocket(f"{socket_address(url)}/ws?clientId={self._client_id}")
        self._version: tuple[int, ...] | None = None
        self._stuck_on: tuple[str, QueuePlace] | None = None
        # Runs that did not stop on request. Their history and files are removed when they have ended.
        self._unstopped: set[str] = set()
        # Runs of other clients that blocked a run of this agent until its limit.
        self._behind: frozenset[str] = frozenset()
        self._socket_images = SocketImages()
        self._marks = Marks()
        self._earlier = EarlierOutputs()

    async def close(self) -> None:
        self._socket_images.close()
        await self._socket.close()
        await self._http.close()

    async def describe(self) -> EngineDescription:
        stats = await self._http.get_object("/system_stats")
        system = stats.get("system") if isinstance(stats.get("system"), dict) else {}
        assert isinstance(system, dict)
        if self._stuck_on is not None:
            await self._refuse_while_stuck(*self._stuck_on)
        if self._behind:
            await self._refuse_while_behind()
        await self._forget_ended()
        version = system.get("comfyui_version")
        self._version = version_of(version)
        if self._version is not None and self._version < OLDEST:
            raise too_old(str(version))
        devices = [each.get("name") for each in stats.get("devices") or [] if isinstance(each, dict)]
        return EngineDescription(str(version) if version else None, {"devices": devices})

    async def inventory(self) -> Inventory:
        return await read_inventory(self._http)

    async def upload(self, path: Path, name: str, run_id: str) -> str:
        return await self._files.upload(path, name, run_id)

    async def share(self, path: Path, name: str) -> str:
        return await self._files.share(path, name)

    async def run(self, run: EngineRun, watcher: Watcher) -> Sequence[Output]:
        while True:
            try:
                return await self._attempt(run, watcher)
            except EngineError as error:
                if not self._marks.learn(error, run.graph):
                    raise
                log.info("engine.mark_refused", classes=sorted(self._marks.refusing))
                # Other outputs of the run may be running.
                await self.cancel(run.id)
                await self._forget_entry(run.id)

    async def _attempt(self, run: EngineRun, watcher: Watcher) -> Sequence[Output]:
        following = Following(run, watcher, self._socket_images)
        with self._socket.following(following):
            following.missed = not await self._socket.ready()
            await submitted(lambda: to_its_end(self._send(run)), lambda: self._find(run.id), self._patience.absent)
            entry = await self._finished(following)
            await self._give_up_silent_socket(following)
            await self._socket.wait_for_last_messages(following, self._patience.last_messages)
        error = errors.of_history(entry)
        if error is not None:
            raise error
        outputs = [*following.images(), *outputs_of(entry.get("outputs"), run.output_node)]
        if not outputs:
            raise no_output(following)
        self._earlier.check(outputs, run, errors.cached_nodes(entry) | following.cached)
        return outputs

    async def cancel(self, run_id: str) -> bool:
        place = None
        self._unstopped.add(run_id)
        # This is repeated, because the run may be anywhere between submit, queue and executor.
        for attempt in range(1, CANCEL_ATTEMPTS + 1):
            with suppress(EngineError):
                await self._http.call("POST", "/queue", json={"delete": [run_id]})
                await self._interrupt(run_id)
                place = await self._place(run_id)
                if place is None:
                    self._unstopped.discard(run_id)
                    return True
            await pause(attempt, 0.2, 2.0)
        log.warning("engine.not_cancelled", run=run_id)
        if place is not None:
            # The next run would wait behind this one.
            self._stuck_on = run_id, place
        return False

    def id_of(self, run_id: str) -> str:
        return run_id

    async def fetch(self, output: Output, target: Path) -> FetchedOutput:
        fetched = await self._files.fetch(output, target)
        self._earlier.fetched(output, fetched)
        return fetched

    async def forget(self, run_id: str) -> None:
        self._socket_images.forget(run_id)
        if self._directory is not None:
            await asyncio.to_thread(remove_files, self._directory, await self._written(run_id))
            for store in ("input", "output"):
                folder = self._directory / store / folder_of(run_id)
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
            await asyncio.to_thread(remove_unused, self._directory / "input" / SHARED_FOLDER, self._asset_days)
        await self._forget_entry(run_id)

    async def _forget_ended(self) -> None:
        for run_id in list(self._unstopped):
            if await self._place(run_id) is None:
                self._unstopped.discard(run_id)
                await self.forget(run_id)

    async def _forget_entry(self, run_id: str) -> None:
        with suppress(EngineError):
            await self._http.call("POST", "/history", json={"delete": [run_id]})

    async def _written(self, run_id: str) -> list[Output]:
        """The files of the run as the engine lists them, in any folder: a node may create any prefix. The file of a
        node without a mark may be the result of a later run.
        """
        with suppress(EngineError):
            entry = await self._entry(run_id) or {}
            marked = marked_nodes(entry.get("prompt"), run_id)
            return [each for each in files_of(entry.get("outputs")) if each.node_id in marked]
        return []

    async def _send(self, run: EngineRun) -> str:
        body = {
            "prompt": self._marks.put(run),
            "prompt_id": run.id,
            # Without an output node, a run served from the cache has no outputs in its history.
            "client_id": self._client_id,
            # By default, a sampler draws no previews.
            "extra_data": {"preview_method": self._previews, **checked_extra_data(run.extra_data)},
        }
        response = await self._http.call("POST", "/prompt", json=body)
        taken = json_of(response)
        refuse_unless_taken(response.status_code, taken, run)
        if isinstance(taken, dict) and taken.get("prompt_id") not in (None, run.id):
            # This includes an engine that does not report its version.
            await self._http.call("POST", "/queue", json={"delete": [taken["prompt_id"]]})
            raise too_old("of an unknown version")
        return run.id

    async def _find(self, run_id: str) -> str | None:
        known = await self._place(run_id) is not None or await self._entry(run_id) is not None
        return run_id if known else None

    async def _finished(self, following: Following) -> Mapping[str, Any]:
        run_id, misses, polls = following.run.id, 0, 0
        reached = time.monotonic()
        signs = RunSigns()
        while True:
            polls = await self._wait(following, polls)
            if following.is_complete:
                # The history has nothing else. A response of ComfyUI takes about six milliseconds.
                return outcome_from_socket(following)
            left = self._patience.absent - (time.monotonic() - reached)
            try:
                async with within(max(left, min(LAST_CHECK_SECONDS, self._patience.absent))):
                    entry = await self._entry(run_id)
                    place = None if entry is not None else await self._place(run_id)
            except EngineUnreachable as away:
                if time.monotonic() - reached >= self._patience.absent:
                    raise (errors.away_while_queued(away) if waits_in(signs.place, following) else away) from None
                continue
            reached = time.monotonic()
            if entry is not None:
                return entry
            # The queue is read twice, because the run may have moved from queue to history between the two requests.
            misses = misses + 1 if place is None else 0
            if misses > 1:
                if waits_in(signs.place, following):
                    raise errors.lost_while_queued(run_id, was_connected=not following.missed)
                return outcome_from_socket(following)
            if place is not None:
                await self._watch_queue(following, place, signs)

    async def _watch_queue(self, following: Following, place: QueuePlace, signs: RunSigns) -> None:
        """Raises if the run makes no progress."""
        now = time.monotonic()
        if place != signs.place:
            following.alive()
            signs.place = place
        if place.is_running:
            following.note_start()
        elif self._socket.follows_any(place.running):
            # The run is behind a run of our own, which has a limit.
            signs.queued_since = now
        await self._refuse_to_stall(following, place, signs)
        if not following.has_started and now - signs.queued_since > self._patience.queue:
            await self._leave_queue(following.run.id)

    async def _wait(self, following: Following, polls: int) -> int:
        """Waits until the socket reports the end, or it is time to poll. Returns the number of polls after the end."""
        if following.over.is_set():
            await asyncio.sleep(min(self._patience.poll, SETTLE_SECONDS * 2**polls) if polls else 0)
            return polls + 1
        with suppress(TimeoutError):
            async with asyncio.timeout(self._patience.poll):
                await following.over.wait()
                return 1
        return 0

    async def _refuse_to_stall(self, following: Following, place: QueuePlace, signs: RunSigns) -> None:
        patience = self._patience
        # If the connection is lost, any node may be running.
        is_heard = self._socket.is_settled(patience.idle / SETTLED) and not self._socket.is_silent(following.since)
        idle = is_idle(place, following.is_at_node or not is_heard)
        # A graph that has stopped an engine before gets no long silences.
        short = idle or following.run.is_suspect
        limit = patience.idle if short else patience.stall
        # A run that waits behind another run of ours depends on the messages about that run.
        last = following.last_sign if place.is_running else max(following.last_sign, self._socket.last_sign)
        silent = time.monotonic() - last
        doubt = (limit if following.is_at_node else patience.idle) / 2
        may_ask = place.is_running and not self._socket.carries_images
        if may_ask and silent > doubt and signs.is_first_doubt(last):
            # ComfyUI sends the current node of the run to a new connection.
            await self._socket.reopen()
        if not idle and silent > limit / MEMORY_CHECKS and signs.is_due(limit / MEMORY_CHECKS):
            with suppress(EngineError):
                if signs.has_changed(memory_in(await self._http.get_object("/system_stats"))):
                    following.alive()
                    return
        if silent > limit:
            self._stuck_on = following.run.id, place
            self._unstopped.add(following.run.id)
            if place.is_running:
                # After the interrupt, a slow node ends before the next one starts. A dead executor does not react.
                await self._interrupt(following.run.id)
            raise EngineStuck(
                "The engine stopped working on the run.", silent_seconds=round(silent), idle=idle, **following.at_node
            )

    async def _give_up_silent_socket(self, following: Following) -> None:
        """Closes the socket after a run without messages, so that the next run has a socket that the engine knows."""
        if self._socket.is_silent(following.since):
            # Messages may still be on their way.
            await self._wait(following, 0)
        if self._socket.is_silent(following.since):
            following.missed = True
            await self._socket.reopen()

    async def _leave_queue(self, run_id: str) -> NoReturn:
        with suppress(EngineUnreachable):
            others = ids_in(await self._http.get_object("/queue"))
            self._behind = frozenset(each for each in others if not self._socket.follows_any([each]))
        await self.cancel(run_id)
        raise still_queued(self._patience.queue)

    async def _refuse_while_behind(self) -> None:
        """Refuses jobs until the runs ahead are done: a new job would wait just as long."""
        left = self._behind.intersection(ids_in(await self._http.get_object("/queue")))
        if left:
            raise EngineError("engine_busy", "The engine is busy with other prompts.", details={"runs": len(left)})
        self._behind = frozenset()

    async def _refuse_while_stuck(self, run_id: str, before: QueuePlace) -> None:
        """Refuses jobs while the engine is stuck. The run stays in the queue as a sign: an engine that works again
        moves it.
        """
        place = await self._place(run_id)
        if place == before:
            raise EngineStuck("The engine responds but makes no progress with a run.", run=run_id)
        self._stuck_on = None
        if place is not None and not await self.cancel(run_id):
            raise EngineStuck("The engine is busy with a run that does not stop.", run=run_id)

    async def _interrupt(self, run_id: str) -> None:
        if (self._version or (0,)) >= INTERRUPTS_BY_ID:
            with suppress(EngineError):
                await self._http.call("POST", "/interrupt", json={"prompt_id": run_id})

    async def _entry(self, run_id: str) -> Mapping[str, Any] | None:
        found = (await self._http.get_object(f"/history/{quote(run_id, safe='')}")).get(run_id)
        return found if isinstance(found, dict) else None

    async def _place(self, run_id: str) -> QueuePlace | None:
        return place_in(await self._http.get_object("/queue"), run_id)
