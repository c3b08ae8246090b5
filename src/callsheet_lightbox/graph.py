"""The order of a graph's nodes, and the nodes that did not change since the last run. Pure rules."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from typing import Any

from callsheet_lightbox.folders import Folders
from callsheet_lightbox.node import Node, NodeRegistry

Prompt = Mapping[str, Any]


def links_of(node_class: type[Node], values: Mapping[str, Any]) -> dict[str, tuple[str, int]]:
    """Inputs that come from other nodes: name to (node, slot)."""
    given = ((name, values.get(name)) for name in node_class.inputs)
    return {name: (link[0], link[1]) for name, link in given if isinstance(link, list) and len(link) == 2}


def needed_nodes(prompt: Prompt, registry: NodeRegistry, outputs: list[str]) -> list[str]:
    """Every node that the outputs need, each after the nodes that it is linked to."""
    ordered: dict[str, None] = {}
    for output in outputs:
        stack = [(output, False)]
        while stack:
            node_id, inputs_done = stack.pop()
            if inputs_done:
                ordered.setdefault(node_id)
            elif node_id not in ordered:
                stack.append((node_id, True))
                node_class = registry.nodes[prompt[node_id]["class_type"]]
                links = links_of(node_class, prompt[node_id]["inputs"])
                stack += [(needed, False) for needed, _ in reversed(list(links.values())) if needed not in ordered]
    return list(ordered)


def signatures(prompt: dict[str, Any], registry: NodeRegistry, folders: Folders, ordered: list[str]) -> dict[str, str]:
    """A hash for each node of its class and inputs, including those of its ancestors; node ids do not matter."""
    found: dict[str, str] = {}
    for node_id in ordered:
        node = prompt[node_id]
        node_class = registry.nodes[node["class_type"]]
        links = links_of(node_class, node["inputs"])
        constants = {name: value for name, value in node["inputs"].items() if name not in links}
        parts = [
            node["class_type"],
            repr(_fingerprint(node, node_class, constants, folders)),
            repr(sorted((name, repr(value)) for name, value in constants.items())),
            repr(sorted((name, found[needed], slot) for name, (needed, slot) in links.items())),
        ]
        found[node_id] = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
    return found


def _fingerprint(node: dict[str, Any], node_class: type[Node], values: Mapping[str, Any], folders: Folders) -> Any:
    # ComfyUI writes this into the graph, so a graph from an image's metadata contains it, and it is used.
    if "is_changed" in node:
        return node["is_changed"]
    try:
        found = node_class.fingerprint(values, folders)
    except (OSError, KeyError, TypeError, ValueError):
        # The run reports the error; an error must never count as "unchanged".
        return uuid.uuid4().hex
    if found is None:
        return None
    node["is_changed"] = [found]
    return node["is_changed"]


class Schedule:
    """Yields the remaining nodes: those with all inputs available, outputs before the others."""

    def __init__(self, prompt: Prompt, registry: NodeRegistry, outputs: list[str], cached: set[str]) -> None:
        self._outputs = outputs
        self._missing: dict[str, set[str]] = {}
        self._dependents: dict[str, list[str]] = {}
        waiting = list(reversed(outputs))
        while waiting:
            node_id = waiting.pop()
            if node_id in self._missing:
                continue
            node_class = registry.nodes[prompt[node_id]["class_type"]]
            links = () if node_id in cached else links_of(node_class, prompt[node_id]["inputs"]).values()
            needed = {each for each, _ in links if each not in cached}
            self._missing[node_id] = needed
            for each in needed:
                self._dependents.setdefault(each, []).append(node_id)
            waiting += [each for each in needed if each not in self._missing]
        self._ready = [node_id for node_id, missing in self._missing.items() if not missing]

    def next(self) -> str | None:
        if not self._ready:
            return None
        # An output that can run now is run now: its file exists even if a later node fails.
        chosen = next((each for each in self._ready if each in self._outputs), None)
        leading = (each for each in self._ready if any(o in self._outputs for o in self._dependents.get(each, ())))
        return chosen or next(leading, self._ready[0])

    def done(self, node_id: str) -> None:
        self._ready.remove(node_id)
        for dependent in self._dependents.get(node_id, ()):
            self._missing[dependent].discard(node_id)
            if not self._missing[dependent] and dependent not in self._ready:
                self._ready.append(dependent)
