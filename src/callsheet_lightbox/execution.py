"""Runs one graph at a time and sends ComfyUI's messages about it."""

from __future__ import annotations

import copy
import io
import threading
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from PIL import Image

from callsheet_lightbox.api.sockets import PreviewFrame
from callsheet_lightbox.folders import Folders
from callsheet_lightbox.graph import Schedule, links_of, needed_nodes, signatures
from callsheet_lightbox.media.frames import Frame
from callsheet_lightbox.node import Blocker, NodeRegistry, Result
from callsheet_lightbox.prompt_queue import Item
from callsheet_lightbox.validation import type_name

# A save node reports every frame; after this many steps it reports only at this interval, in seconds.
MANY_STEPS = 100
REPORT_EVERY = 0.05
# Minimum time between previews, in seconds: each costs as much as a frame of the result, and users see no more.
PREVIEW_EVERY = 0.1
PREVIEW_SIZE = (512, 512)
OUT_OF_MEMORY = "torch.OutOfMemoryError"
OUT_OF_MEMORY_ADVICE = (
    "\nThis error means you ran out of memory on your GPU.\n\nTIPS: If the workflow worked before you might have"
    " accidentally set the batch_size to a large number."
)


class Interrupted(Exception):
    """The run was stopped."""


class Publisher(Protocol):
    def publish(self, event: str, data: Mapping[str, Any], client: str | None) -> None: ...

    def publish_preview(self, preview: PreviewFrame, client: str | None, with_metadata: bool) -> None: ...

    def now_at(self, client: str | None, node_id: str | None) -> None:
        """The current node, for a client that reconnects during a run."""


@dataclass
class PromptOutcome:
    """The data of a run for the history."""

    outputs: dict[str, Any] = field(default_factory=dict)
    meta: dict[str, Any] = field(default_factory=dict)
    messages: list[list[Any]] = field(default_factory=list)
    success: bool = True

    def record(self) -> dict[str, Any]:
        status = {
            "status_str": "success" if self.success else "error",
            "completed": self.success,
            "messages": self.messages,
        }
        return {"outputs": self.outputs, "status": status, "meta": self.meta}


class LightboxEngine:
    """Keeps the results of the last graph's nodes, so that unchanged nodes are not run again."""

    def __init__(
        self, registry: NodeRegistry, folders: Folders, publisher: Publisher, interrupted: threading.Event
    ) -> None:
        self.registry = registry
        self.folders = folders
        self.publisher = publisher
        self.interrupted = interrupted
        self._cache: dict[str, Result] = {}

    def forget_results(self) -> None:
        self._cache.clear()

    def run(self, item: Item) -> PromptOutcome:
        # This changes a copy: the history shows the original graph.
        run = _Run(self, item, copy.deepcopy(item.prompt))
        run.start(self._cache)
        self._cache = {run.signatures[node_id]: result for node_id, result in run.results.items()}
        try:
            run.execute()
        finally:
            self._cache = {run.signatures[node_id]: result for node_id, result in run.results.items()}
        return run.outcome


class _Run:
    def __init__(self, engine: LightboxEngine, item: Item, prompt: dict[str, Any]) -> None:
        self.engine = engine
        self.item = item
        self.prompt = prompt
        client = item.extra_data.get("client_id")
        self.client: str | None = None if client is None else str(client)
        self.outcome = PromptOutcome()
        self.results: dict[str, Result] = {}
        self.executed: list[str] = []
        self.progress: dict[str, dict[str, Any]] = {}
        self.signatures: dict[str, str] = {}

    def start(self, cache: Mapping[str, Result]) -> None:
        self._message("execution_start", {})
        engine = self.engine
        ordered = needed_nodes(self.prompt, engine.registry, self.item.outputs)
        self.signatures = signatures(self.prompt, engine.registry, engine.folders, ordered)
        self.results = {
            node_id: cache[self.signatures[node_id]] for node_id in self.prompt if self.signatures.get(node_id) in cache
        }
        self._message("execution_cached", {"nodes": list(self.results)})

    def execute(self) -> None:
        cached = set(self.results)
        schedule = Schedule(self.prompt, self.engine.registry, self.item.outputs, cached)
        while (node_id := schedule.next()) is not None:
            if node_id in cached:
                self._show_cached(node_id)
            elif not self._run_node(node_id):
                self.outcome.success = False
                return
            schedule.done(node_id)
        self._message("execution_success", {})

    def _show_cached(self, node_id: str) -> None:
        shown = self.results[node_id].shown
        # Without a client id ComfyUI leaves cached outputs out of the history (comfyui-api.md §6).
        if self.client is not None and shown is not None:
            self._show(node_id, shown)
        self.report(node_id, 1, 1, "finished")

    def _show(self, node_id: str, shown: Mapping[str, Any]) -> None:
        data = {"node": node_id, "display_node": node_id, "output": shown, "prompt_id": self.item.prompt_id}
        self._send("executed", data)
        self.outcome.outputs[node_id] = shown
        about = {"node_id": node_id, "display_node": node_id, "parent_node": None, "real_node_id": node_id}
        self.outcome.meta[node_id] = about

    def _run_node(self, node_id: str) -> bool:
        """Runs a node. Returns whether the run continues."""
        values: dict[str, Any] = {}
        try:
            values = self._values(node_id)
            self.report(node_id, 0.0, 1.0, "running")
            self.engine.publisher.now_at(self.client, node_id)
            data = {"node": node_id, "display_node": node_id, "prompt_id": self.item.prompt_id}
            self._send("executing", data)
            if self.engine.interrupted.is_set():
                raise Interrupted
            result = self._result(node_id, values)
        except Interrupted:
            self._message("execution_interrupted", self._about(node_id), broadcast=True)
            return False
        except Exception as raised:  # noqa: BLE001 - a node may fail in any way; all of them end the run, not the engine
            self._message("execution_error", self._failure(node_id, raised, values))
            return False
        self._finish_node(node_id, result)
        return True

    def _finish_node(self, node_id: str, result: Result) -> None:
        self.results[node_id] = result
        self.executed.append(node_id)
        if result.shown is not None:
            self._show(node_id, result.shown)
        at = self.progress[node_id]
        self.report(node_id, at["max"], at["max"], "finished")

    def _result(self, node_id: str, values: dict[str, Any]) -> Result:
        node_class = self.engine.registry.nodes[self.prompt[node_id]["class_type"]]
        blocker = next((each for each in values.values() if isinstance(each, Blocker)), None)
        if blocker is None:
            return node_class().run(_NodeContext(self, node_id), **values)
        if blocker.message is not None:
            # This is sent, but is not the end: ComfyUI continues to execution_success, and the history does not contain
            # it.
            message = f"Execution Blocked: {blocker.message}"
            failure = self._described(node_id, message, "ExecutionBlocked", [], [])
            self._send("execution_error", {**failure, "current_outputs": [], "prompt_id": self.item.prompt_id})
        return Result((Blocker(None),) * len(node_class.outputs))

    def _values(self, node_id: str) -> dict[str, Any]:
        node_class = self.engine.registry.nodes[self.prompt[node_id]["class_type"]]
        given = self.prompt[node_id]["inputs"]
        links = links_of(node_class, given)
        values = {name: given[name] for name in node_class.inputs if name in given and name not in links}
        return values | {name: self.results[needed].values[slot] for name, (needed, slot) in links.items()}

    def _failure(self, node_id: str, raised: Exception, values: Mapping[str, Any]) -> dict[str, Any]:
        message, kind = f"{raised}\n", type_name(type(raised))
        if isinstance(raised, MemoryError):
            # Clients of ComfyUI recognize an engine without memory by this.
            message, kind = f"{raised}{OUT_OF_MEMORY_ADVICE}", OUT_OF_MEMORY
        inputs = {name: [_shown_value(value)] for name, value in values.items()}
        if self.engine.registry.nodes[self.prompt[node_id]["class_type"]].writes_metadata:
            inputs |= {"prompt": [str(self.prompt)], "extra_pnginfo": [self.item.extra_data.get("extra_pnginfo")]}
        return self._described(node_id, message, kind, traceback.format_tb(raised.__traceback__), inputs)

    def _described(
        self, node_id: str, message: str, kind: str, frames: list[str], inputs: Mapping[str, Any] | list[Any]
    ) -> dict[str, Any]:
        return {
            **self._about(node_id),
            "exception_message": message,
            "exception_type": kind,
            "traceback": frames,
            "current_inputs": inputs,
            "current_outputs": list(self.prompt),
        }

    def _about(self, node_id: str) -> dict[str, Any]:
        return {"node_id": node_id, "node_type": self.prompt[node_id]["class_type"], "executed": list(self.executed)}

    def report(self, node_id: str, value: float, total: float, state: str) -> None:
        prompt_id = self.item.prompt_id
        self.progress[node_id] = {
            "value": value,
            "max": total,
            "state": state,
            "node_id": node_id,
            "prompt_id": prompt_id,
            "display_node_id": node_id,
            "parent_node_id": None,
            "real_node_id": node_id,
        }
        # Entries are replaced, never changed: the loop may still be reading the earlier ones.
        data = {"prompt_id": prompt_id, "nodes": dict(self.progress)}
        self.engine.publisher.publish("progress_state", data, self.client)

    def _message(self, event: str, data: dict[str, Any], broadcast: bool = False) -> None:
        """Sends a message that the history keeps too."""
        message = {**data, "prompt_id": self.item.prompt_id, "timestamp": _now()}
        self.outcome.messages.append([event, message])
        self._send(event, message, broadcast)

    def _send(self, event: str, data: Mapping[str, Any], broadcast: bool = False) -> None:
        if self.client is not None or broadcast:
            self.engine.publisher.publish(event, data, self.client)


class _NodeContext:
    """The interface of a running node to its run."""

    def __init__(self, run: _Run, node_id: str) -> None:
        self.folders: Folders = run.engine.folders
        self.prompt: Mapping[str, Any] = run.prompt
        self.extra_pnginfo = run.item.extra_data.get("extra_pnginfo")
        self.previews = run.item.extra_data.get("preview_method") in ("auto", "latent2rgb", "taesd")
        self._run = run
        self._node_id = node_id
        self._reported = 0.0
        self._previewed = 0.0

    def check(self) -> None:
        if self._run.engine.interrupted.is_set():
            raise Interrupted

    def progress(self, value: int, total: int, image: Frame | None = None, always: bool = False) -> None:
        self.check()
        # A video of unknown length still has a last frame.
        total = max(total, value, 1)
        now = time.monotonic()
        if total > MANY_STEPS and value < total and now - self._reported < REPORT_EVERY:
            return
        self._reported = now
        run, node_id = self._run, self._node_id
        run.report(node_id, value, total, "running")
        preview = None
        if image is not None and (always or (self.previews and now - self._previewed >= PREVIEW_EVERY)):
            preview, self._previewed = self._preview(image, always), now
        publisher = run.engine.publisher
        # The newer form comes before its number, the older one after it.
        if preview is not None:
            publisher.publish_preview(preview, run.client, with_metadata=True)
        data = {"value": value, "max": total, "prompt_id": run.item.prompt_id, "node": node_id}
        publisher.publish("progress", data, run.client)
        if preview is not None:
            publisher.publish_preview(preview, run.client, with_metadata=False)

    def _preview(self, frame: Frame, exact: bool) -> PreviewFrame:
        image, encoded = Image.fromarray(frame), io.BytesIO()
        if exact:
            image.save(encoded, "PNG", compress_level=1)
        else:
            image.thumbnail(PREVIEW_SIZE)
            image.save(encoded, "JPEG", quality=80)
        about = self._run.progress[self._node_id]
        keys = ("node_id", "prompt_id", "display_node_id", "parent_node_id", "real_node_id")
        media_type = "image/png" if exact else "image/jpeg"
        return PreviewFrame(encoded.getvalue(), media_type, {key: about[key] for key in keys})


def _shown_value(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)


def _now() -> int:
    return int(time.time() * 1000)
