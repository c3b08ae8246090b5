"""Interprets responses of ComfyUI and Comfy Cloud about a run: whether it was accepted, where it is, how it ended.
No I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from callsheet.providers.comfy import errors
from callsheet.providers.comfy.run_messages import Following
from callsheet.providers.comfy.stalls import QueuePlace
from callsheet.providers.engine import EngineError, EngineRun, EngineUnreachable, NotBegun
from callsheet.wire.plurals import counted


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
    return place is not None and not place.is_running and not following.has_begun


def still_queued(seconds: float) -> NotBegun:
    waited = counted(seconds, "second")
    message = f"The engine was busy with other prompts: the run waited longer than {waited} in its queue."
    return NotBegun("engine_busy", message, queue_seconds=seconds)


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
