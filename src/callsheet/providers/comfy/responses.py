"""Interprets responses of ComfyUI and Comfy Cloud about a run: whether it was accepted, where it is, whether
the engine still works on it, how it ended. No I/O.

An engine whose executor died continues to respond: the run keeps its place in the queue, and the engine reports
nothing. A long-running node looks nearly the same. There are two differences. In a working engine, only moments pass
without a running node. And a computing node allocates and frees memory of the GPU.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from callsheet.providers.comfy import errors
from callsheet.providers.comfy.run_messages import Following
from callsheet.providers.engine import EngineError, EngineRun, EngineUnreachable, NotStarted
from callsheet.wire.plurals import counted

# ComfyUI's names of devices whose memory figures are those of its own process, not of the whole machine.
_COUNTED = ("cuda", "xpu", "npu", "mlu")


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """The place of a run in an engine's queue, without the number of waiting runs, which any client can change."""

    is_running: bool
    running: tuple[str, ...]


@dataclass(slots=True)
class RunSigns:
    """The signs of one run at the last check."""

    place: QueuePlace | None = None
    queued_since: float = field(default_factory=time.monotonic)
    _memory: tuple[object, ...] = ()
    _checked_at: float = 0.0
    _doubted: float = 0.0

    def is_first_doubt(self, last_sign: float) -> bool:
        """Whether this is the first doubt of a silence."""
        is_first = last_sign != self._doubted
        self._doubted = last_sign
        return is_first

    def is_due(self, seconds: float) -> bool:
        now = time.monotonic()
        due = now - self._checked_at >= seconds
        self._checked_at = now if due else self._checked_at
        return due

    def has_changed(self, memory: tuple[object, ...]) -> bool:
        changed = bool(self._memory) and memory != self._memory
        self._memory = memory
        return changed


def place_in(queue: Mapping[str, Any], run_id: str) -> QueuePlace | None:
    running, pending = (_ids(queue.get(name)) for name in ("queue_running", "queue_pending"))
    if run_id in running:
        return QueuePlace(True, running)
    return QueuePlace(False, running) if run_id in pending else None


def ids_in(queue: Mapping[str, Any]) -> tuple[str, ...]:
    """The ids of the runs that are running or waiting."""
    return _ids(queue.get("queue_running")) + _ids(queue.get("queue_pending"))


def is_idle(place: QueuePlace, is_at_node: bool) -> bool:
    """Whether nothing is being computed, as far as it is known. A silence then means more."""
    return not is_at_node if place.is_running else not place.running


def memory_in(stats: Mapping[str, Any]) -> tuple[object, ...]:
    """The memory that the engine's own process uses on its devices; empty if it cannot be separated from the
    machine's.
    """
    devices = stats.get("devices")
    return tuple(
        (each.get("index"), each.get("torch_vram_total"), each.get("torch_vram_free"))
        for each in (devices if isinstance(devices, list) else [])
        if isinstance(each, dict) and each.get("type") in _COUNTED
    )


def _ids(entries: object) -> tuple[str, ...]:
    found = entries if isinstance(entries, list) else []
    return tuple(str(entry[1]) for entry in found if isinstance(entry, list) and len(entry) > 1)


def refuse_unless_taken(status: int, body: object, run: EngineRun) -> None:
    if status >= 502:
        raise EngineUnreachable("The engine does not accept the run.", status=status)
    if status != 200 or not isinstance(body, dict):
        raise errors.of_refused_prompt(status, body)
    problem = errors.of_node_errors(body.get("node_errors"), run.output_node)
    if problem is not None:
        raise problem


def waits_in(place: QueuePlace | None, following: Following) -> bool:
    """Whether the run never left the queue, as far as it was seen."""
    return place is not None and not place.is_running and not following.has_started


def still_queued(seconds: float) -> NotStarted:
    waited = counted(seconds, "second")
    message = f"The engine was busy with other prompts: the run waited longer than {waited} in its queue."
    return NotStarted("engine_busy", message, queue_seconds=seconds)


def outcome_from_socket(following: Following) -> Mapping[str, Any]:
    """The end of a run that is in neither queue nor history. If all messages of the run came by the socket, a person
    cleared the history.
    """
    if following.interrupted:
        raise errors.interrupted()
    # All messages, or at least the ones that matter, were received.
    if following.succeeded and (not following.missed or following.run.output_node in following.outputs):
        return {"outputs": following.outputs, "status": {"status_str": "success"}}
    if following.error is not None:
        raise errors.of_execution_error(following.error)
    raise errors.lost(following.run.id, was_connected=not following.missed)


def no_output(following: Following) -> EngineError:
    """The error of a run that succeeded without a result: a node was blocked, or the wrong node is named as output."""
    if following.error is not None:
        return errors.of_execution_error(following.error)
    return EngineError(
        "no_output", "The run ended without a result.", details={"output_node_id": following.run.output_node}
    )
