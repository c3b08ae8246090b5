"""The one thread that renders, one prompt after the other."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

from callsheet.toolbox.logs import get_logger
from callsheet_lightbox.api.sockets import PreviewFrame, Sockets
from callsheet_lightbox.execution import LightboxEngine, PromptOutcome
from callsheet_lightbox.folders import Folders
from callsheet_lightbox.node import NodeRegistry
from callsheet_lightbox.prompt_queue import Item, PromptQueue
from callsheet_lightbox.timing import Timing

log = get_logger(__name__)


class Executor:
    def __init__(
        self,
        registry: NodeRegistry,
        folders: Folders,
        queue: PromptQueue,
        sockets: Sockets,
        timing: Timing | None = None,
    ) -> None:
        self.queue = queue
        self._timing = timing or Timing()
        # The running node of each client id, for a socket that reconnects.
        self.current_node: dict[str, str] = {}
        self.engine = LightboxEngine(registry, folders, self, queue.interrupted)
        self._sockets = sockets
        self._loop: asyncio.AbstractEventLoop | None = None
        self._forget = threading.Event()
        # The thread is a daemon: a node that hangs must not keep the process from ending.
        self._thread = threading.Thread(target=self._work, name="lightbox-executor", daemon=True)

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    async def stop(self) -> None:
        self.queue.close()
        await asyncio.to_thread(self._thread.join, 5)
        self._loop = None

    def forget_results(self) -> None:
        """Forgets results, after the current prompt if there is one."""
        self._forget.set()

    def announce_queue(self) -> None:
        self.publish("status", self.status(), None)

    def status(self) -> dict[str, Any]:
        return {"status": {"exec_info": {"queue_remaining": self.queue.remaining}}}

    def publish(self, event: str, data: Mapping[str, Any], client: str | None) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._sockets.publish, event, data, client)

    def publish_preview(self, preview: PreviewFrame, client: str | None, with_metadata: bool) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._sockets.publish_preview, preview, client, with_metadata)

    def now_at(self, client: str | None, node_id: str | None) -> None:
        self.current_node = {client: node_id} if client is not None and node_id is not None else {}

    def _work(self) -> None:
        while (taken := self.queue.take()) is not None:
            ticket, item = taken
            self._timing.wait("taken")
            if self._forget.is_set():
                self._forget.clear()
                self.engine.forget_results()
            self.announce_queue()
            self._run(ticket, item)

    def _run(self, ticket: int, item: Item) -> None:
        self._timing.wait("started")
        outcome = self._outcome(item)
        self._timing.wait("recorded")
        self.queue.finish(ticket, outcome.record())
        self.announce_queue()
        self._timing.wait("ended")
        self.now_at(None, None)
        client = item.extra_data.get("client_id")
        if client is not None:
            # This is sent after the history is written: clients rely on this message.
            self.publish("executing", {"node": None, "prompt_id": item.prompt_id}, str(client))
        log.info("prompt_finished", prompt_id=item.prompt_id, success=outcome.success)

    def _outcome(self, item: Item) -> PromptOutcome:
        try:
            return self.engine.run(item)
        except Exception:
            # ComfyUI's thread ends with such a graph, and the server never renders again (comfyui-api.md §8).
            log.exception("prompt_broke_the_engine", prompt_id=item.prompt_id)
            return PromptOutcome(success=False)
