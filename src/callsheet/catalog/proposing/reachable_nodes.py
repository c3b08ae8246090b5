"""Finds the nodes of a graph that lead to a result. Pure.

An engine runs only the nodes that its output nodes need. The other nodes cost nothing there, but every job contains
them, and every import checks them. A few unused nodes are normal; a thousand are a mistake or an attack.
"""

from __future__ import annotations

import re

from callsheet.catalog.graphs import Graph
from callsheet.providers.comfy.file_inputs import is_link
from callsheet.wire.errors import FieldProblem
from callsheet.wire.plurals import counted

MAX_UNUSED = 100
# Only the engine knows which classes produce results. The names of most of them contain these words.
_OUTPUT = re.compile(r"save|preview|combine|output|export|upload|display|show|print|send|write", re.IGNORECASE)


def check_reach(graph: Graph, output_node_id: str | None) -> list[FieldProblem]:
    """Problems of a checked graph. Without an output node, every output counts."""
    unused = graph.keys() - _needed(graph, output_node_id)
    if len(unused) <= MAX_UNUSED:
        return []
    some = ", ".join(sorted(unused, key=lambda node_id: (len(node_id), node_id))[:5])
    reason = (
        f"The graph has {counted(len(unused), 'node that leads', 'nodes that lead')} to no output, for example "
        f"{some[:200]}. "
        f"The limit is {MAX_UNUSED}. Remove them from the graph."
    )
    return [FieldProblem("graph", reason)]


def _needed(graph: Graph, output_node_id: str | None) -> set[str]:
    needed: set[str] = set()
    waiting = [
        node_id for node_id, node in graph.items() if node_id == output_node_id or _OUTPUT.search(node["class_type"])
    ]
    while waiting:
        node_id = waiting.pop()
        if node_id not in needed:
            needed.add(node_id)
            waiting += [value[0] for value in graph[node_id]["inputs"].values() if is_link(value)]
    return needed
