"""The waiting, running and finished prompts. They are only in memory, as in ComfyUI: a restart forgets them."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_HISTORY = 10_000


class AlreadyQueued(Exception):
    """The same id with the same number already waits: ComfyUI queues it, and returns 500."""


@dataclass(frozen=True)
class Item:
    number: float
    prompt_id: str
    prompt: dict[str, Any]
    extra_data: dict[str, Any]
    outputs: list[str]

    def as_list(self) -> list[Any]:
        return [self.number, self.prompt_id, self.prompt, self.extra_data, self.outputs]


@dataclass
class PromptQueue:
    """Shared by the server's loop and the executor's thread. Every method takes the lock, and only `take` waits."""

    # Set while the running prompt must stop. It is changed under the lock, so that it never stops the next one.
    interrupted: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Condition = field(default_factory=threading.Condition)
    _heap: list[tuple[float, str, int, Item]] = field(default_factory=list)
    _sequence: itertools.count[int] = field(default_factory=itertools.count)
    _running: dict[int, Item] = field(default_factory=dict)
    _history: dict[str, dict[str, Any]] = field(default_factory=dict)
    # Ids that were deleted while they waited. ComfyUI forgets them; Comfy Cloud returns `cancelled`.
    _cancelled: dict[str, Item] = field(default_factory=dict)
    _closed: bool = False

    def put(self, item: Item, announce: Callable[[], None]) -> None:
        """Adds a prompt. `announce` is called before the executor can take it: the message about the queue comes
        before the start.
        """
        with self._lock:
            twice = any(number == item.number and each == item.prompt_id for number, each, _, _ in self._heap)
            heapq.heappush(self._heap, (item.number, item.prompt_id, next(self._sequence), item))
            announce()
            self._lock.notify()
        if twice:
            raise AlreadyQueued

    def take(self) -> tuple[int, Item] | None:
        """The next prompt to run, as soon as there is one; None once the queue is closed."""
        with self._lock:
            self._lock.wait_for(lambda: self._heap or self._closed)
            if self._closed:
                return None
            _, _, ticket, item = heapq.heappop(self._heap)
            self._running[ticket] = item
            self.interrupted.clear()
            return ticket, item

    def finish(self, ticket: int, record: Mapping[str, Any]) -> None:
        with self._lock:
            item = self._running.pop(ticket)
            if len(self._history) >= MAX_HISTORY:
                del self._history[next(iter(self._history))]
            self._history.pop(item.prompt_id, None)
            self._history[item.prompt_id] = {"prompt": item.as_list(), **record}

    def interrupt(self, prompt_id: str | None = None) -> None:
        """Stops the running prompt; with an id, only if that prompt runs. It affects no other and no later prompt."""
        with self._lock:
            if any(prompt_id in (None, item.prompt_id) for item in self._running.values()):
                self.interrupted.set()

    def close(self) -> None:
        """Closes the queue: no prompt is handed out, and the running one is stopped."""
        with self._lock:
            self._closed = True
            self.interrupted.set()
            self._lock.notify_all()

    @property
    def remaining(self) -> int:
        with self._lock:
            return len(self._heap) + len(self._running)

    def running(self) -> list[Item]:
        with self._lock:
            return list(self._running.values())

    def pending(self) -> list[Item]:
        """Pending prompts in the order of the heap, as in ComfyUI. They may run in another order."""
        with self._lock:
            return [item for _, _, _, item in self._heap]

    def cancelled(self) -> list[Item]:
        with self._lock:
            return list(self._cancelled.values())

    def delete(self, prompt_id: str) -> bool:
        """Removes a waiting prompt."""
        with self._lock:
            for position, (_, each, _, item) in enumerate(self._heap):
                if each == prompt_id:
                    del self._heap[position]
                    heapq.heapify(self._heap)
                    self._remember_cancelled(item)
                    return True
        return False

    def clear(self) -> None:
        with self._lock:
            for _, _, _, item in self._heap:
                self._remember_cancelled(item)
            self._heap.clear()

    def _remember_cancelled(self, item: Item) -> None:
        if len(self._cancelled) >= MAX_HISTORY:
            del self._cancelled[next(iter(self._cancelled))]
        self._cancelled[item.prompt_id] = item

    def history(self, max_items: int | None = None, offset: int = -1) -> dict[str, Any]:
        with self._lock:
            entries = list(self._history.items())
        start = max(0, len(entries) - max_items) if offset < 0 and max_items is not None else max(0, offset)
        return dict(entries[start:] if max_items is None else entries[start : start + max(1, max_items)])

    def history_of(self, prompt_id: str) -> dict[str, Any] | None:
        with self._lock:
            return self._history.get(prompt_id)

    def forget(self, prompt_id: str) -> None:
        with self._lock:
            self._history.pop(prompt_id, None)

    def forget_all(self) -> None:
        with self._lock:
            self._history.clear()
