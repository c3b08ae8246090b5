"""Translates errors of ComfyUI. Pure.

The texts of ComfyUI contain server paths, dumps of tensors and lists of model files. They are for admins, and are
shortened.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from callsheet.providers.engine import EngineError, EngineLack, EngineLacks, EngineUnreachable, NotStarted
from callsheet.toolbox.redaction.redaction import redact_start

MAX_MESSAGE_LENGTH = 2000
MAX_TRACEBACK_LENGTH = 20_000
MAX_VALUE_LENGTH = 200
NOT_IN_LIST = "value_not_in_list"
# The text of this error lists every choice, including model files.
_WITH_FILE_NAMES = frozenset({NOT_IN_LIST, "exception_during_validation", "exception_during_inner_validation"})
_MISSING_CLASS = re.compile(r"Cannot execute because node (?P<name>.+) does not exist\.")
_NODE_ID = re.compile(r"#(?P<id>[^'\s]+)")
# For operators.
INSTALL_NODE = "Install the custom node package that has this class on ComfyUI's machine, then restart ComfyUI."
INSTALL_FILE = "Put the file into ComfyUI's models folder, or change the workflow to one that is there."
# Parts of the names of out-of-memory errors; the last one is Comfy Cloud's.
_OUT_OF_MEMORY = ("outofmemory", "oomerror", "memoryerror")
# Parts of their messages. PyTorch reports the memory of the CPU with a RuntimeError, and libraries with bad_alloc.
_NO_MEMORY_LEFT = (
    "out of memory",
    "can't allocate memory",
    "cannot allocate memory",
    "not enough memory",
    "unable to allocate",
    "bad_alloc",
)
# The message of the operating system, as Python prints it.
_DISK_FULL = "no space left on device"
# Faults of the machine or of the account's files, not of the job.
_RETRYABLE_IN_CLOUD = frozenset({"ModelDownloadError", "ImageDownloadError"})
TOO_LARGE = 413


def of_refused_prompt(status: int, body: object) -> EngineError:
    """The error for a response to POST /prompt that is not 200."""
    if not isinstance(body, dict) or not isinstance(body.get("error"), dict | str):
        # The engine failed because it cannot read the body: the next attempt would fail too.
        return EngineError("invalid_workflow", f"The engine cannot read this workflow ({status}).")
    error = body["error"] if isinstance(body["error"], dict) else {"message": body["error"]}
    details = {"error": error, "node_errors": body.get("node_errors") or {}}
    missing = _missing_class(error)
    if missing is not None:
        place = f" (node {missing.node_id} of the workflow)" if missing.node_id else ""
        message = f"The engine has no node of the class {missing.node_class}{place}."
        return EngineLacks(message, [missing], {"advice": INSTALL_NODE, **details})
    problems = _node_problems(body.get("node_errors"))
    # The details are often only the number of a node.
    text = "; ".join(problems[:5]) or " ".join(filter(None, (_text(error.get("message")), _text(error.get("details")))))
    return _of_nodes(text or "The engine refused the workflow.", body.get("node_errors"), details)


def _of_nodes(message: str, node_errors: object, details: dict[str, Any]) -> EngineError:
    lacks, is_all = _missing_choices(node_errors)
    if lacks:
        details["advice"] = INSTALL_FILE
    if lacks and is_all:
        return EngineLacks(message, lacks, details)
    return EngineError("invalid_workflow", message, details=details)


def _missing_class(error: Mapping[str, Any]) -> EngineLack | None:
    """The class of nodes that the engine does not have, and the node that uses it."""
    extra = error.get("extra_info")
    found = _MISSING_CLASS.fullmatch(_text(error.get("message")))
    name = _text(extra.get("class_type")) if isinstance(extra, dict) else ""
    name = name or (found["name"] if found else "")
    if not name or not (found or error.get("type") == "missing_node_type"):
        return None
    number = _NODE_ID.search(_text(error.get("details")))
    return EngineLack(number["id"] if number else "", name)


def _missing_choices(node_errors: object) -> tuple[list[EngineLack], bool]:
    """The choices that the engine does not have, and whether there are no other errors."""
    found: list[EngineLack] = []
    is_all = True
    for node_id, node in node_errors.items() if isinstance(node_errors, dict) else ():
        for error in (node.get("errors") or []) if isinstance(node, dict) else ():
            extra = error.get("extra_info") if isinstance(error, dict) else None
            if not isinstance(extra, dict) or error.get("type") != NOT_IN_LIST:
                is_all = False
                continue
            name, value = _text(extra.get("input_name")), extra.get("received_value")
            found.append(EngineLack(str(node_id), _text(node.get("class_type")), name, str(value)))
    return found, is_all


def of_node_errors(node_errors: object, output_node: str | None) -> EngineError | None:
    """The error of our output. Status 200 means only that some output could be run."""
    if not isinstance(node_errors, dict) or not node_errors:
        return None
    stopped = {str(each) for node in node_errors.values() for each in _dependents(node)} | set(node_errors)
    if output_node is not None and output_node not in stopped:
        return None
    text = "; ".join(_node_problems(node_errors)[:5])
    return _of_nodes(text or "The engine refused a node.", node_errors, {"node_errors": dict(node_errors)})


def of_execution_error(data: Mapping[str, Any]) -> EngineError:
    """The error of `execution_error` from history or socket, without the inputs, which are long dumps of tensors."""
    kind = _text(data.get("exception_type")) or "Error"
    raw = _text(data.get("exception_message"))
    memory = any(name in kind.lower() for name in _OUT_OF_MEMORY) or any(
        text in raw.lower() for text in _NO_MEMORY_LEFT
    )
    # ComfyUI appends advice for a person at the machine, which is left out.
    message = raw.partition("TIPS:")[0].strip() if memory else raw
    details = {name: data.get(name) for name in ("node_id", "node_type", "exception_type") if data.get(name)}
    frames = data.get("traceback")
    if _DISK_FULL in raw.lower():
        # A fault of the machine, like a lack of memory: another worker may have the space.
        return EngineError("engine_disk_full", "The disk of the engine is full.", retryable=True, details=details)
    return EngineError(
        "out_of_memory" if memory else "execution_error",
        message or ("The engine ran out of memory." if memory else f"A node failed ({kind})."),
        retryable=memory or kind in _RETRYABLE_IN_CLOUD,
        details=details,
        traceback=redact_start("".join(map(str, frames)), MAX_TRACEBACK_LENGTH) if isinstance(frames, list) else None,
    )


def interrupted() -> EngineError:
    """The error of a run that another client interrupted. After its own interruption, an agent does not wait for
    this.
    """
    return EngineError("interrupted", "The run was interrupted at the engine.", retryable=True)


def lost(run_id: str, *, was_connected: bool = False) -> EngineError:
    """The error of a run that the engine no longer knows. `was_connected`: our connection to the engine was never
    lost, so the engine was not restarted.
    """
    message = "The engine was restarted and no longer knows the run."
    if was_connected:
        message = "The engine no longer knows the run, although it was not restarted."
    return EngineError("run_lost", message, retryable=True, details={"run": run_id})


def lost_while_queued(run_id: str, *, was_connected: bool) -> NotStarted:
    if was_connected:
        return NotStarted("run_removed", "The run was removed from the engine's queue before it started.", run=run_id)
    return NotStarted("run_lost", "The engine was restarted before the run started.", run=run_id)


def away_while_queued(away: EngineUnreachable) -> NotStarted:
    return NotStarted("engine_unreachable", f"{away.message} The run had not started.")


def of_history(entry: Mapping[str, Any]) -> EngineError | None:
    """The error of a finished run; None if it succeeded."""
    status = entry.get("status")
    if not isinstance(status, dict) or status.get("status_str") != "error":
        return None
    for event, data in reversed(_messages(status)):
        if event == "execution_interrupted":
            return interrupted()
        if event == "execution_error":
            return of_execution_error(data)
    return EngineError("execution_error", "The engine reported that the run failed, without a reason.")


def cached_nodes(entry: Mapping[str, Any]) -> set[str]:
    status = entry.get("status")
    messages = _messages(status) if isinstance(status, dict) else []
    nodes = [data.get("nodes") for event, data in messages if event == "execution_cached"]
    return {str(node) for each in nodes if isinstance(each, list) for node in each}


def _messages(status: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    messages = status.get("messages")
    pairs = (
        [each for each in messages if isinstance(each, list) and len(each) == 2] if isinstance(messages, list) else []
    )
    return [(str(event), data) for event, data in pairs if isinstance(data, dict)]


def _node_problems(node_errors: object) -> list[str]:
    if not isinstance(node_errors, dict):
        return []
    found: list[str] = []
    for node_id, node in node_errors.items():
        if not isinstance(node, dict):
            continue
        name = _text(node.get("class_type")) or f"Node {node_id}"
        problems = node.get("errors") or []
        found += [f"{name}: {_problem(error)}" for error in problems if isinstance(error, dict)]
    return found


def _problem(error: Mapping[str, Any]) -> str:
    message, details = _text(error.get("message")), _text(error.get("details"))
    extra = error.get("extra_info")
    if error.get("type") in _WITH_FILE_NAMES:
        known = extra if isinstance(extra, dict) else {}
        name, value = _text(known.get("input_name")), known.get("received_value")
        if error.get("type") == NOT_IN_LIST and name and isinstance(value, str | int | float):
            return f"the engine has no {name} {_text(str(value))[:MAX_VALUE_LENGTH]!r}"
        return f"{message} ({name})" if name else message
    return f"{message} ({details})" if details and details != message else message


def _dependents(node: object) -> list[Any]:
    found = node.get("dependent_outputs") if isinstance(node, dict) else None
    return found if isinstance(found, list) else []


def _text(value: object) -> str:
    return redact_start(value, MAX_MESSAGE_LENGTH).strip() if isinstance(value, str) else ""
