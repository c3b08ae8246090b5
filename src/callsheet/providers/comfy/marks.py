"""Adds the run's id as an input of its output nodes, so that an engine does not return files of an earlier run.

ComfyUI ignores inputs that a node does not know. A custom node may refuse them. Its class is then remembered, and a
cached file of such a node is accepted only if this process has seen the same inputs make the same file.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from callsheet.providers.comfy.graphs import MARK, needed_by, with_marks
from callsheet.providers.engine import EngineError, EngineRun, FetchedOutput, Graph, Output

# Highest number of remembered files: few node classes refuse the mark.
MAX_REMEMBERED = 1000
Place = tuple[str, str, str]


class Marks:
    """How one engine treats the run's id."""

    def __init__(self) -> None:
        self.refusing: set[str] = set()

    def put(self, run: EngineRun) -> Graph:
        return with_marks(run.graph, run.id, run.output_node, self.refusing)

    def learn(self, error: EngineError, graph: Graph) -> bool:
        """Whether a node failed because of its mark, so that the run can be sent again without it."""
        found = {graph[each]["class_type"] for each in _refusing_nodes(error) if each in graph} - self.refusing
        self.refusing |= found
        return bool(found)


@dataclass(slots=True)
class _Seen:
    inputs: str
    sha256: str | None = None


class EarlierOutputs:
    """The files that nodes without a mark made, with the inputs."""

    def __init__(self) -> None:
        self._seen: OrderedDict[Place, _Seen] = OrderedDict()

    def check(self, outputs: Sequence[Output], run: EngineRun, cached: Collection[str]) -> None:
        """Refuses files from the cache whose inputs are unknown, because they may belong to another user."""
        for output in outputs:
            if _is_here(output) or run.id in f"{output.folder}/{output.name}":
                continue
            place, inputs = _place(output), _inputs(run.graph, output.node_id)
            seen = self._seen.get(place)
            if output.node_id not in cached:
                self._seen[place] = _Seen(inputs)
                self._seen.move_to_end(place)
            elif seen is None or seen.inputs != inputs or seen.sha256 is None:
                raise foreign(output)
        while len(self._seen) > MAX_REMEMBERED:
            self._seen.popitem(last=False)

    def fetched(self, output: Output, fetched: FetchedOutput) -> None:
        seen = None if _is_here(output) else self._seen.get(_place(output))
        if seen is not None and seen.sha256 not in (None, fetched.sha256):
            # Another file was written under this name meanwhile.
            raise foreign(output)
        if seen is not None:
            seen.sha256 = fetched.sha256


def foreign(output: Output) -> EngineError:
    return EngineError(
        "foreign_output",
        "The engine returned from its cache a file that may be of another run.",
        details={"node_id": output.node_id, "name": output.name},
    )


def _refusing_nodes(error: EngineError) -> Iterator[str]:
    if MARK in error.message and error.details.get("node_id") is not None:
        yield str(error.details["node_id"])
    node_errors = error.details.get("node_errors")
    for node_id, node in (node_errors if isinstance(node_errors, dict) else {}).items():
        if isinstance(node, dict) and MARK in json.dumps(node.get("errors"), default=str):
            yield str(node_id)


def _is_here(output: Output) -> bool:
    """Whether the output is a text or an image that came with the message, not a file of the engine."""
    return output.text is not None or output.kept is not None


def _place(output: Output) -> Place:
    return output.store, output.folder, output.name


def _inputs(graph: Graph, node_id: str) -> str:
    text = json.dumps(needed_by(graph, node_id), sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
