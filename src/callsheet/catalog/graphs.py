"""ComfyUI graphs in API format: their required form, and the texts in them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from callsheet.catalog.proposing.known_nodes import MAX_OUTPUTS, OUTPUTS
from callsheet.providers.comfy.file_inputs import LINK_LENGTH, is_link
from callsheet.wire.errors import FieldProblem
from callsheet.wire.plurals import counted

Graph = Mapping[str, Any]
# ComfyUI 0.7 fails on a chain of 1000 nodes ("maximum recursion depth exceeded", or its executor dies); 600 passed.
MAX_CHAIN_DEPTH = 500
MAX_VALUE_DEPTH = 30
# Several times the size of the largest graphs that people share.
MAX_NODES = 5000
# The input of audio nodes for the player in ComfyUI's pages. No node reads it.
PLAYER = "audioUI"
UI_FORMAT = (
    "The graph is in ComfyUI's UI format, which engines do not run. In ComfyUI, choose Workflow → Export (API), or "
    "turn on the dev mode options in its settings and use Save (API format). Send that file."
)


@dataclass(frozen=True, slots=True)
class Text:
    """A text in an input of a node."""

    node_id: str
    class_type: str
    input: str
    text: str
    in_pair: bool
    """Whether the text is in a list of two. Together with a number, such a list is a link to another node."""


def bare_graph(document: Graph) -> Graph:
    """The graph itself, if the document is a whole request to ComfyUI, as some tools save it."""
    prompt = document.get("prompt")
    return prompt if isinstance(prompt, dict) and "class_type" not in prompt else document


def check_graph(graph: Graph) -> list[FieldProblem]:
    """The problems of a graph, which may be any JSON. The other functions of this module need a graph without
    problems.
    """
    if isinstance(graph.get("nodes"), list) and "links" in graph:
        return [FieldProblem("graph", UI_FORMAT)]
    if isinstance(graph.get("prompt"), dict) and "class_type" not in graph["prompt"]:
        return [FieldProblem("graph", "This is a whole request to ComfyUI. Send only the value of its `prompt`.")]
    if not graph:
        return [FieldProblem("graph", "The graph has no nodes.")]
    if len(graph) > MAX_NODES:
        return [FieldProblem("graph", f"The graph has {counted(len(graph), 'node')}. The limit is {MAX_NODES}.")]
    problems = [problem for node_id, node in graph.items() for problem in _check_node(node_id, node)]
    return problems or _check_links(graph)


def _check_node(node_id: str, node: Any) -> Iterator[FieldProblem]:
    where = f"graph.{node_id[:100]}"
    if not isinstance(node, dict):
        yield FieldProblem(where, "A node must be an object with class_type and inputs.")
        return
    if not (isinstance(node.get("class_type"), str) and node["class_type"]):
        yield FieldProblem(f"{where}.class_type", "The value must be the name of a node class.")
    # A node without inputs, or with a list, ends the executor of ComfyUI 0.7: nothing runs again until a restart.
    if not isinstance(node.get("inputs"), dict):
        yield FieldProblem(f"{where}.inputs", "The value must be an object.")
    elif _depth(node) > MAX_VALUE_DEPTH:
        yield FieldProblem(f"{where}.inputs", f"The value has more than {MAX_VALUE_DEPTH} levels.")


def _depth(value: Any) -> int:
    deepest, waiting = 0, [(value, 1)]
    while waiting:
        current, depth = waiting.pop()
        deepest = max(deepest, depth)
        match current:
            case dict():
                waiting.extend((member, depth + 1) for member in current.values())
            case list():
                waiting.extend((item, depth + 1) for item in current)
    return deepest


def _check_links(graph: Graph) -> list[FieldProblem]:
    problems: list[FieldProblem] = []
    before: dict[str, set[str]] = {}
    for node_id, node in graph.items():
        before[node_id] = set()
        for name, value in node["inputs"].items():
            if not is_link(value):
                continue
            reason = _wrong_link(graph, *value)
            if reason is not None:
                problems.append(FieldProblem(f"graph.{node_id[:100]}.inputs.{name[:100]}", reason))
            else:
                before[node_id].add(value[0])
    return problems or _check_chains(before)


def _wrong_link(graph: Graph, source: str, output: float) -> str | None:
    """Why no engine could follow the link; None if one could."""
    if source not in graph:
        return f"The input is linked to node {source[:100]!r}, which is not in the graph."
    class_type = graph[source]["class_type"]
    node = f"node {source[:100]!r} ({class_type[:100]})"
    # The number is not in the message, because Python refuses to write numbers of thousands of digits.
    if not -MAX_OUTPUTS < output < MAX_OUTPUTS:
        return f"The input is linked to an output of {node}, and its number is too large. The limit is {MAX_OUTPUTS}."
    if isinstance(output, bool) or not isinstance(output, int) or output < 0:
        return f"The input is linked to output {output} of {node}. Outputs are numbered 0, 1, 2, …."
    count = OUTPUTS.get(class_type)
    if count is not None and output >= count:
        has = f"has {counted(count, 'output')}, numbered from 0" if count else "has no outputs"
        return f"The input is linked to output {output} of {node}, which {has}."
    return None


def _check_chains(before: dict[str, set[str]]) -> list[FieldProblem]:
    length = 0
    while before:
        ready = {node_id for node_id, sources in before.items() if not sources}
        if not ready:
            nodes = ", ".join(sorted(before)[:5])
            return [FieldProblem("graph", f"The graph has a cycle. These nodes wait for one another: {nodes[:200]}.")]
        length += 1
        if length > MAX_CHAIN_DEPTH:
            return [FieldProblem("graph", f"The graph has a chain of more than {MAX_CHAIN_DEPTH} nodes.")]
        before = {node_id: sources - ready for node_id, sources in before.items() if node_id not in ready}
    return []


def normalized(graph: Graph) -> dict[str, Any]:
    """Removes what the graph does not need: `is_changed`, which prompts from images have, because with it ComfyUI does
    not notice a changed file; and `audioUI`, the player of an audio node, whose value is often the URL of a file on
    the machine that exported the graph.
    """
    return {
        node_id: {
            name: {key: each for key, each in value.items() if key != PLAYER} if name == "inputs" else value
            for name, value in node.items()
            if name != "is_changed"
        }
        for node_id, node in graph.items()
    }


def texts_of(graph: Graph) -> Iterator[Text]:
    """Every text in the inputs of the nodes, at any depth; keys are not texts."""
    for node_id, node in graph.items():
        for name, value in node["inputs"].items():
            for text, in_pair in _texts(value, in_pair=False):
                yield Text(node_id, node["class_type"], name, text, in_pair)


def _texts(value: Any, in_pair: bool) -> Iterator[tuple[str, bool]]:
    match value:
        case str():
            yield value, in_pair
        case list():
            for item in value:
                yield from _texts(item, len(value) == LINK_LENGTH)
        case dict():
            for member in value.values():
                yield from _texts(member, in_pair=False)
