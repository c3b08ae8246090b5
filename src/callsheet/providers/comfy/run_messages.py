"""Collects the messages of an engine's socket about one run: its progress, its outputs and its end. No I/O."""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from callsheet.providers.engine import EngineError, EngineRun, FetchedOutput, Output, Watcher

# The only node whose images come over the socket and are not stored anywhere.
SENDS_IMAGES = "SaveImageWebsocket"
_ENDINGS = {"image/png": "png", "image/jpeg": "jpg"}
# The last percent is reserved for the delivery of the result.
MAX_PERCENT = 99.0


class Following:
    """Gets every message of the run from the socket. The run must also work without it, because sockets are lost."""

    def __init__(self, run: EngineRun, watcher: Watcher, socket_images: SocketImages):
        self.run = run
        # Whether messages may have been missed.
        self.missed = False
        self.over = asyncio.Event()
        self.succeeded = False
        self.interrupted = False
        self.error: Mapping[str, Any] | None = None
        self.outputs: dict[str, Any] = {}
        self.cached: set[str] = set()
        self.last_sign = self.since = time.monotonic()
        self._watcher = watcher
        self._socket_images = socket_images
        self._keep_as = run.id
        self._images: list[Output] = []
        self._promised: dict[str, int] = {}
        self._started = False
        self._done: set[str] = set()
        self._current: str | None = None
        # The node that ComfyUI shows as the current one. For a node inside a node, it is the outer one.
        self._shown: str | None = None
        # The nodes that run, if the engine reports them. Older engines do not.
        self._running: set[str] | None = None
        self._parts: dict[str, float] = {}
        self._percent = 0.0
        # Nodes whose start was reported to the watcher, but not their end.
        self._timed: set[str] = set()

    def alive(self) -> None:
        """Records a change that only a working engine causes."""
        self.last_sign = time.monotonic()

    @property
    def is_at_node(self) -> bool:
        """Whether a node is known to run. No node runs before the first, between two and after the last."""
        if self._running is not None:
            return bool(self._running)
        return self._current is not None or bool(self._parts)

    def shown_at(self, node: str) -> None:
        """Handles the current node that a new connection gets in the middle of a run. It is sent also if that node
        is finished or the executor has died: only a change of the node is a sign of work.
        """
        if node == self._shown:
            return
        self.alive()
        self._shown = self._current = node
        if self._running is not None:
            self._running.add(node)

    @property
    def at_node(self) -> dict[str, str]:
        """The current node of the run, if a message named it."""
        return {} if self._current is None else {"node_id": self._current, "node_type": self._label(self._current)}

    @property
    def has_started(self) -> bool:
        """Whether the engine is known to have worked on the run."""
        return self._started

    @property
    def is_complete(self) -> bool:
        """Whether the run succeeded and every message about it was received, so its outputs are known. In every
        recorded run, the messages have the outputs of the history.
        """
        has_outputs = bool(self.outputs) and self.run.output_node in (None, *self.outputs)
        return self.succeeded and self.over.is_set() and not self.missed and has_outputs

    @property
    def has_heard_end(self) -> bool:
        """Whether the engine has reported the end of the run. After that it reports nothing about its nodes."""
        return self.over.is_set() or self.succeeded or self.error is not None

    def note_start(self) -> None:
        if not self._started:
            self._started = True
            self._watcher.started()

    def previewed(self, mime_type: str, image: bytes, node: str | None = None) -> None:
        self.alive()
        node = node or self._current or ""
        if self._label(node) == SENDS_IMAGES:
            number = sum(each.node_id == node for each in self._images) + 1
            name = f"picture-{node}-{number:05}.{_ENDINGS.get(mime_type, 'bin')}"
            kept = self._socket_images.keep(self._keep_as, image)
            self._images.append(Output(node, name, kept=kept))
        self._watcher.previewed(mime_type, image)

    @property
    def sends_images(self) -> list[str]:
        """The nodes whose images come over the socket, if their outputs are wanted."""
        return [
            node_id
            for node_id in self.run.graph
            if self._label(node_id) == SENDS_IMAGES and self.run.output_node in (None, node_id)
        ]

    def images(self) -> list[Output]:
        """The images that came over the socket instead of being saved, of the wanted node or of all. A lost
        connection may have lost some of them, and ComfyUI cannot send them again.
        """
        wanted = self.sends_images
        found = [each for each in self._images if each.node_id in wanted]
        promised = sum(self._promised.get(node_id, 0) for node_id in wanted)
        if wanted and (self.missed or len(found) < promised):
            raise EngineError(
                "output_lost",
                f"Preview images that {SENDS_IMAGES} sent over the socket did not arrive; SaveImage would keep them.",
                retryable=True,
                details={"arrived": len(found), "promised": promised},
            )
        return found

    def receive(self, event: str, data: Mapping[str, Any]) -> None:
        self.alive()
        # The engine sends no message about a run that is still waiting.
        self.note_start()
        match event:
            case "execution_start":
                self._shown = self._current = None
            case "execution_cached":
                self._found_in_cache(_names(data.get("nodes")))
            case "executing":
                self._executing(data.get("node"), data.get("display_node"))
            case "progress":
                self._progress(data)
            case "progress_state":
                self._progress_state(data.get("nodes"))
            case "executed":
                self._executed(data)
            case "execution_success":
                self.succeeded = True
                self._stop_timing(*self._timed)
                # This is not the end yet: in 62 of 300 runs the history entry came only with `executing` of no node.
            case "execution_error":
                self.error = data
                self._stop_timing(*self._timed)
            case "execution_interrupted":
                self.interrupted = True
                self._stop_timing(*self._timed)
                self.over.set()

    def _executing(self, node: object, shown: object) -> None:
        if node is None:
            self._stop_timing(*self._timed)
            self.over.set()
            if self.succeeded:
                # After a failure, the same run may be sent again without what the engine refused.
                self._watcher.freed()
            return
        if self._current is not None:
            self._finish(self._current)
        self._current = str(node)
        self._start_timing(self._current)
        self._shown = self._current if shown is None else str(shown)
        if self._running is not None:
            self._running.add(self._current)
        self._report_progress(self._label(self._current))

    def _executed(self, data: Mapping[str, Any]) -> None:
        node, output = data.get("node"), data.get("output")
        if node is not None:
            self._stop_timing(str(node))
        if node is not None and isinstance(output, dict):
            self.outputs[str(node)] = output

    def _progress(self, data: Mapping[str, Any]) -> None:
        value, maximum, node = data.get("value"), data.get("max"), data.get("node")
        if not _is_number(value) or not _is_number(maximum) or not maximum or node is None:
            return
        self._promised[str(node)] = int(maximum)
        self._parts[str(node)] = value / maximum
        if str(node) not in self._done:
            self._start_timing(str(node))
        self._report_progress(f"{self._label(str(node))} {value:g}/{maximum:g}")

    def _progress_state(self, nodes: object) -> None:
        if not isinstance(nodes, dict):
            return
        states = {str(name): state.get("state") for name, state in nodes.items() if isinstance(state, dict)}
        self._running = {name for name, state in states.items() if state == "running"}
        for name in self._running - self._done:
            self._start_timing(name)
        self._finish(*(name for name, state in states.items() if state == "finished"))

    def _finish(self, *nodes: str) -> None:
        self._done.update(nodes)
        for node in nodes:
            self._parts.pop(node, None)
        self._stop_timing(*nodes)

    def _found_in_cache(self, nodes: list[str]) -> None:
        for node in nodes:
            if node not in self.cached:
                self._watcher.at_node(node, "cached")
        self.cached.update(nodes)
        self._finish(*nodes)

    def _start_timing(self, node: str) -> None:
        if node not in self._timed:
            self._timed.add(node)
            self._watcher.at_node(node, "started")

    def _stop_timing(self, *nodes: str) -> None:
        for node in nodes:
            if node in self._timed:
                self._timed.discard(node)
                self._watcher.at_node(node, "finished")

    def _report_progress(self, message: str) -> None:
        graph = self.run.graph
        done = len(self._done & graph.keys()) + sum(
            min(1.0, max(0.0, part)) for node, part in self._parts.items() if node in graph and node not in self._done
        )
        # The progress never decreases: nodes inside nodes start their own count.
        self._percent = max(self._percent, min(MAX_PERCENT, 100.0 * done / max(1, len(graph))))
        self._watcher.progressed(round(self._percent, 1), message)

    def _label(self, node: str) -> str:
        return str(self.run.graph.get(node, {}).get("class_type", "working"))[:100]


def _names(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


PIECE = 262_144


@dataclass(frozen=True, slots=True, eq=False)
class StoredImage:
    """One image."""

    file: IO[bytes]
    start: int
    size: int

    def save(self, target: Path) -> FetchedOutput:
        digest, left = hashlib.sha256(), self.size
        self.file.seek(self.start)
        with target.open("wb") as copy:
            while left and (piece := self.file.read(min(PIECE, left))):
                copy.write(piece)
                digest.update(piece)
                left -= len(piece)
        return FetchedOutput(self.size - left, digest.hexdigest())


class SocketImages:
    """The images that runs of an engine sent over its socket and nowhere else (ComfyUI: SaveImageWebsocket).

    The agent stores them until it fetches the outputs of the run. Each run has one file, without a name, because a
    batch of large images does not fit into memory.
    """

    def __init__(self) -> None:
        self._files: dict[str, IO[bytes]] = {}

    def keep(self, run_id: str, image: bytes) -> StoredImage:
        file = self._files.get(run_id)
        if file is None:
            file = self._files[run_id] = tempfile.TemporaryFile()  # noqa: SIM115 (closed when the run is forgotten)
        start = file.seek(0, 2)
        file.write(image)
        return StoredImage(file, start, len(image))

    def forget(self, run_id: str) -> None:
        file = self._files.pop(run_id, None)
        if file is not None:
            with suppress(OSError):
                file.close()

    def close(self) -> None:
        for run_id in list(self._files):
            self.forget(run_id)
