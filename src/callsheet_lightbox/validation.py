"""Checks whether the engine can run a graph. It uses ComfyUI's own error types, texts and forms.

Nothing here uses recursion: a graph is untrusted input, and its depth is not limited.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from callsheet_lightbox.folders import Folders
from callsheet_lightbox.node import Node, NodeInput, NodeRegistry

Error = dict[str, Any]
# ComfyUI uses recursion: a chain of 600 nodes passes, 1000 reach Python's limit.
MAX_DEPTH = 900
# Longer lists of choices are not repeated in an error.
LISTED_CHOICES = 20


@dataclass(frozen=True)
class PromptVerdict:
    error: Error | None
    outputs: list[str] = field(default_factory=list)
    node_errors: dict[str, Any] = field(default_factory=dict)


@dataclass
class _Finding:
    valid: bool
    errors: list[Error]
    raised: Exception | None = None


def validate_prompt(
    prompt: Any, registry: NodeRegistry, folders: Folders, targets: list[str] | None = None
) -> PromptVerdict:
    """Validates a graph. Converts numbers in place, as ComfyUI does. Raises where ComfyUI returns 500."""
    outputs: list[str] = []
    for node_id in prompt:
        node = prompt[node_id]
        if "class_type" not in node:
            return _invalid("Cannot execute because a node is missing the class_type property.", node_id)
        node_class = registry.nodes.get(node["class_type"])
        if node_class is None:
            return _invalid(f"Cannot execute because node {node['class_type']} does not exist.", node_id)
        if node_class.is_output and (targets is None or node_id in targets):
            outputs.append(node_id)
    if not outputs:
        return PromptVerdict(error("prompt_no_outputs", "Prompt has no outputs"))
    return _validate_outputs(_Validation(prompt, registry, folders), outputs)


def error(kind: str, message: str, details: str = "", **extra_info: Any) -> Error:
    return {"type": kind, "message": message, "details": details, "extra_info": extra_info}


def type_name(kind: type[BaseException]) -> str:
    """The type of an exception as ComfyUI writes it: built-in types have no module."""
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _invalid(message: str, node_id: str) -> PromptVerdict:
    return PromptVerdict(error("invalid_prompt", message, f"Node ID '#{node_id}'"))


def _validate_outputs(validation: _Validation, outputs: list[str]) -> PromptVerdict:
    good: list[str] = []
    node_errors: dict[str, Any] = {}
    details: list[str] = []
    for output in outputs:
        finding = validation.find(output)
        if finding.raised is not None:
            finding.errors = [_raised("exception_during_validation", "Exception when validating node", finding.raised)]
            finding.raised = None
        if finding.valid:
            good.append(output)
            continue
        details += [f"{each['message']}: {each['details']}" for each in finding.errors]
        for node_id, other in validation.findings.items():
            if not other.valid and other.errors:
                entry = {
                    "errors": other.errors,
                    "dependent_outputs": [],
                    "class_type": validation.prompt[node_id]["class_type"],
                }
                node_errors.setdefault(node_id, entry)["dependent_outputs"].append(output)
    if good:
        return PromptVerdict(None, good, node_errors)
    message = "Prompt outputs failed validation"
    return PromptVerdict(error("prompt_outputs_failed_validation", message, "\n".join(details)), [], node_errors)


def _raised(kind: str, message: str, raised: Exception, **extra: Any) -> Error:
    frames = traceback.format_tb(raised.__traceback__)
    return error(kind, message, str(raised), **extra, exception_type=type_name(type(raised)), traceback=frames)


class _Validation:
    def __init__(self, prompt: Mapping[str, Any], registry: NodeRegistry, folders: Folders) -> None:
        self.prompt = prompt
        self.findings: dict[str, _Finding] = {}
        self._registry = registry
        self._folders = folders

    def find(self, output: str) -> _Finding:
        """The problems of `output` and everything that it needs."""
        # A node is checked after the nodes that it is linked to; `open_nodes` is the current path, so that a cycle is
        # found.
        open_nodes: dict[str, Iterator[str]] = {}
        self._enter(output, open_nodes)
        while open_nodes:
            node_id = next(reversed(open_nodes))
            needed = next(open_nodes[node_id], None)
            if needed is not None:
                if needed not in self.findings and needed not in open_nodes:
                    self._enter(needed, open_nodes)
                continue
            del open_nodes[node_id]
            if node_id not in self.findings:
                self.findings[node_id] = self._judge(node_id, open_nodes)
        return self.findings[output]

    def _enter(self, node_id: str, open_nodes: dict[str, Iterator[str]]) -> None:
        if node_id in self.findings:
            return
        if len(open_nodes) >= MAX_DEPTH:
            self.findings[node_id] = _Finding(False, [], RecursionError("maximum recursion depth exceeded"))
            return
        open_nodes[node_id] = iter(self._linked(node_id))

    def _linked(self, node_id: str) -> list[str]:
        inputs = self.prompt[node_id].get("inputs")
        if not isinstance(inputs, dict):
            return []
        values = [inputs[name] for name in self._class(node_id).inputs if name in inputs]
        return [value[0] for value in values if _is_link(value) and self._knows(value[0])]

    def _knows(self, node_id: Any) -> bool:
        return isinstance(node_id, str) and node_id in self.prompt

    def _class(self, node_id: str) -> type[Node]:
        return self._registry.nodes[self.prompt[node_id]["class_type"]]

    def _judge(self, node_id: str, open_nodes: Mapping[str, object]) -> _Finding:
        try:
            return self._judge_inputs(node_id, open_nodes)
        except Exception as raised:  # noqa: BLE001 - whatever a malformed graph provokes is reported, as ComfyUI does
            return _Finding(False, [], raised)

    def _judge_inputs(self, node_id: str, open_nodes: Mapping[str, object]) -> _Finding:
        values, node_class = self.prompt[node_id]["inputs"], self._class(node_id)
        errors: list[Error] = []
        valid = True
        for name, taken in node_class.inputs.items():
            if name not in values:
                if not taken.optional:
                    errors.append(error("required_input_missing", "Required input is missing", name, input_name=name))
            elif isinstance(values[name], list):
                problem = self._judge_link(name, taken, values[name])
                errors += [problem] if problem else []
                valid = valid and (problem is not None or self._link_holds(name, taken, values[name], open_nodes))
            else:
                problem = _coerce(name, taken, values) or self._judge_value(name, taken, values[name], node_class)
                errors += [problem] if problem else []
        errors += self._refusals(node_class, values)
        return _Finding(valid and not errors, errors)

    def _judge_link(self, name: str, taken: NodeInput, link: list[Any]) -> Error | None:
        if len(link) != 2:
            message = "Bad linked input, must be a length-2 list of [node_id, slot_index]"
            return error(
                "bad_linked_input", message, name, input_name=name, input_config=taken.config, received_value=link
            )
        # A link to nowhere raises KeyError or IndexError here, and is reported as such: ComfyUI's shape.
        received = tuple(each.kind for each in self._class(link[0]).outputs)[link[1]]
        if _fits(received, taken.kind):
            return None
        return error(
            "return_type_mismatch",
            "Return type mismatch between linked nodes",
            f"{name}, received_type({received}) mismatch input_type({taken.kind})",
            input_name=name,
            input_config=taken.config,
            received_type=received,
            linked_node=link,
        )

    def _link_holds(self, name: str, taken: NodeInput, link: list[Any], open_nodes: Mapping[str, object]) -> bool:
        # Still open: the graph goes in a circle, which ComfyUI refuses without a word of explanation.
        finding = self.findings.get(link[0]) if link[0] not in open_nodes else _Finding(False, [])
        if finding is None:
            return False
        if finding.raised is not None:
            finding.errors = [
                _raised(
                    "exception_during_inner_validation",
                    "Exception when validating inner node",
                    finding.raised,
                    input_name=name,
                    input_config=taken.config,
                    exception_message=str(finding.raised),
                    linked_node=link,
                )
            ]
            finding.raised = None
        return finding.valid

    def _judge_value(self, name: str, taken: NodeInput, value: Any, node_class: type[Node]) -> Error | None:
        options = taken.options or {}
        config = node_class.input_config(name, self._folders)
        about = {"input_name": name, "input_config": config, "received_value": value}
        if "min" in options and value < options["min"]:
            message = f"Value {value} smaller than min of {options['min']}"
            return error("value_smaller_than_min", message, name, **about)
        if "max" in options and value > options["max"]:
            return error("value_bigger_than_max", f"Value {value} bigger than max of {options['max']}", name, **about)
        choices = node_class.choices_of(name, self._folders)
        if choices is None or name in node_class.judged or value in choices:
            return None
        listed = str(list(choices))
        if len(choices) > LISTED_CHOICES:
            listed, about["input_config"] = f"(list of length {len(choices)})", None
        return error("value_not_in_list", "Value not in list", f"{name}: '{value}' not in {listed}", **about)

    def _refusals(self, node_class: type[Node], values: Mapping[str, Any]) -> Iterator[Error]:
        for name in node_class.judged:
            if name in values and not isinstance(values[name], list):
                reason = node_class.refuse(name, values[name], self._folders)
                if reason is not None:
                    message = "Custom validation failed for node"
                    yield error("custom_validation_failed", message, f"{name} - {reason}", input_name=name)


def _is_link(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2


def _fits(received: str, wanted: Any) -> bool:
    return "*" in (received, wanted) or received == wanted or (isinstance(wanted, tuple) and received == "COMBO")


_COERCIONS: Mapping[str, Callable[[Any], Any]] = {"INT": int, "FLOAT": float, "STRING": str, "BOOLEAN": bool}


def _coerce(name: str, taken: NodeInput, values: dict[str, Any]) -> Error | None:
    value = values[name]
    coerce = _COERCIONS.get(taken.kind) if isinstance(taken.kind, str) else None
    if coerce is None:
        return None
    try:
        values[name] = coerce(value)
    except (TypeError, ValueError, OverflowError) as raised:
        return error(
            "invalid_input_type",
            f"Failed to convert an input value to a {taken.kind} value",
            f"{name}, {value}, {raised}",
            input_name=name,
            input_config=taken.config,
            received_value=value,
            exception_message=str(raised),
        )
    return None
