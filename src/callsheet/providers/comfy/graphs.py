"""Prepares a graph before it is sent: inserts file names, makes output names unique, refuses dangerous graphs. Pure.

The functions change parsed values, never JSON text: a name with quotes in it would rewrite the graph.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import PurePosixPath
from typing import Any

from callsheet.providers.comfy.file_inputs import is_loader, nodes_that_name_files, takes_file
from callsheet.providers.engine import EngineError, Graph

# ComfyUI's recursion refuses a chain of 1,000 nodes. A chain of 1,200 that no output reaches ends its executor until a
# restart. A chain of 600 was run successfully.
MAX_CHAIN_LENGTH = 600
# Highest number of nodes that a message names.
MAX_NAMED = 10
FOLDER = "callsheet"
# Folder of files that many runs use. It cannot be the folder of a run, because the id of a run is not a word.
SHARED_FOLDER = f"{FOLDER}/assets"
# An input that no node has. ComfyUI ignores it when the node runs, but it is part of the key under which the node's
# results are cached: a node that carries the id of a new run always runs, and everything before it stays cached.
MARK = "callsheet_run"
# In bytes.
MAX_PREFIX_LENGTH = 200
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]+")


def folder_of(run_id: str) -> str:
    """The folder of a run in the engine's directories. No other run has files there."""
    return f"{FOLDER}/{run_id}"


def checked_graph(workflow: object) -> Graph:
    """The graph, if no engine would crash on it. ComfyUI accepts a node without `inputs` that no output reaches with
    200, and then its executor thread ends. So this function refuses it.
    """
    if not isinstance(workflow, dict) or not workflow:
        raise invalid("The workflow has no nodes.")
    for node_id, node in workflow.items():
        if not isinstance(node, dict) or not isinstance(node.get("class_type"), str):
            raise invalid(f"Node {node_id} of the workflow has no class_type.", node_id=str(node_id))
        if not isinstance(node.get("inputs"), dict):
            raise invalid(f"Node {node_id} of the workflow has no inputs.", node_id=str(node_id))
    _refuse_circles(workflow)
    _refuse_long_chains(workflow)
    return workflow


def checked_extra_data(value: object) -> dict[str, Any]:
    """The checked extra data. ComfyUI returns 500 if the value is not an object. If `extra_pnginfo` is not an
    object, its job list fails for every client.
    """
    if not isinstance(value, dict):
        return {}
    usable = isinstance(value.get("extra_pnginfo", {}), dict)
    return dict(value) if usable else {name: each for name, each in value.items() if name != "extra_pnginfo"}


def marked_extra_data(value: object, run_id: str) -> dict[str, Any]:
    """Sets the run's id as the id of the workflow. If an engine chooses the ids of its runs itself, its list of runs
    shows only the workflow's id. Images have that id in their metadata too."""
    extra = checked_extra_data(value)
    about = extra.get("extra_pnginfo") or {}
    workflow = about.get("workflow")
    return {
        **extra,
        "extra_pnginfo": {**about, "workflow": {**(workflow if isinstance(workflow, dict) else {}), "id": run_id}},
    }


def with_files(graph: Graph, names: Mapping[str, str]) -> Graph:
    """Replaces the placeholders of files by the engine's file names. Each text is replaced in one pass, so an inserted
    name is not searched for placeholders."""
    placeholders = sorted((each for each in names if each), key=len, reverse=True)
    if not placeholders:
        return graph
    pattern = re.compile("|".join(map(re.escape, placeholders)))
    return _with_inputs(graph, lambda _, value: _replaced(value, lambda text: pattern.sub(_named(names), text)))


def with_marks(graph: Graph, run_id: str, output_node: str | None, refusing: Collection[str]) -> Graph:
    """Adds the run's id to every node that may write a result: nodes with a prefix, nodes that no other node needs, and
    the output node. Nodes whose class refuses unknown inputs are left out."""
    needed = {source for node_id in graph for source in _sources(graph, node_id)}

    def may_write(node_id: str, inputs: Mapping[str, Any]) -> bool:
        return node_id == output_node or node_id not in needed or "filename_prefix" in inputs

    return {
        node_id: {**node, "inputs": {**node["inputs"], MARK: run_id}}
        if may_write(node_id, node["inputs"]) and node["class_type"] not in refusing
        else node
        for node_id, node in graph.items()
    }


def marked_nodes(prompt: object, run_id: str) -> set[str]:
    """The nodes with the run's id, in the prompt that an engine's history keeps."""
    graph = prompt[2] if isinstance(prompt, list) and len(prompt) > 2 else None
    return {
        str(node_id)
        for node_id, node in (graph if isinstance(graph, dict) else {}).items()
        if isinstance(node, dict) and isinstance(node.get("inputs"), dict) and node["inputs"].get(MARK) == run_id
    }


def needed_by(graph: Graph, node_id: str) -> Graph:
    """The node and all nodes that its result depends on."""
    found: Graph = {}
    waiting = [node_id]
    while waiting:
        each = waiting.pop()
        if each in graph and each not in found:
            found[each] = graph[each]
            waiting += _sources(graph, each)
    return found


def with_own_outputs(graph: Graph, run_id: str) -> Graph:
    """Puts every `filename_prefix` that is a text into the run's own folder. The folder shows which run wrote a file,
    and is removed as a whole. A prefix that another node makes does not change.

    The last part of a prefix is the name of the file, and the engine replaces tokens such as `%width%` in it. So its
    characters are kept, also those of tokens that only ComfyUI's own page replaces (`%date:yyyy-MM-dd%`).
    """

    def renamed(name: str, value: Any) -> Any:
        if name != "filename_prefix" or isinstance(value, list):
            return value
        last = PurePosixPath(str(value).replace("\\", "/")).name
        # The engine's /view refuses every name with two dots in it.
        safe = re.sub(r"\.{2,}", ".", _CONTROL.sub("-", last)).strip(". ")
        # A file name may have 255 bytes, and the engine adds a number and an extension.
        safe = safe.encode("utf-8", "replace")[:MAX_PREFIX_LENGTH].decode("utf-8", "ignore")
        return f"{folder_of(run_id)}/{safe or 'output'}"

    return _with_inputs(graph, renamed)


def refuse_foreign_files(graph: Graph) -> None:
    """Refuses paths outside the engine's folders: ComfyUI's loaders open any path that a graph names."""
    for node_id, node in graph.items():
        if not is_loader(node["class_type"]):
            continue
        for name, value in node["inputs"].items():
            if isinstance(value, str) and _leads_outside(value):
                raise invalid(f"Node {node_id} names a file outside the engine's folders.", node_id=node_id, input=name)


def refuse_shared_files(graph: Graph) -> None:
    """Refuses names of shared files. Called before file names are inserted: only placeholders may refer to files
    that several runs share. A text that names no file, such as a prompt, may contain anything.
    """
    of_files = nodes_that_name_files(graph)
    for node_id, node in graph.items():
        for name, value in node["inputs"].items():
            names_file = node_id in of_files or takes_file(node["class_type"], name)
            if names_file and name != "filename_prefix" and any(map(_is_shared, _texts(value))):
                raise invalid(f"Node {node_id} names a file of other jobs.", node_id=node_id, input=name)


def invalid(message: str, **details: Any) -> EngineError:
    return EngineError("invalid_workflow", message, details=details)


def _leads_outside(value: str) -> bool:
    path = value.strip().replace("\\", "/")
    return path.startswith(("/", "~")) or re.match(r"[A-Za-z]:/", path) is not None or ".." in path.split("/")


def _is_shared(value: str) -> bool:
    # Some file systems ignore the case of letters.
    path = posixpath.normpath(value.strip().replace("\\", "/")).casefold()
    return path == SHARED_FOLDER or path.startswith(f"{SHARED_FOLDER}/")


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from _texts(item)
        case dict():
            for member in value.values():
                yield from _texts(member)


def _with_inputs(graph: Graph, change: Callable[[str, Any], Any]) -> Graph:
    return {
        node_id: {**node, "inputs": {name: change(name, value) for name, value in node["inputs"].items()}}
        for node_id, node in graph.items()
    }


def _named(names: Mapping[str, str]) -> Callable[[re.Match[str]], str]:
    return lambda found: names[found[0]]


def _replaced(value: Any, replace: Callable[[str], str]) -> Any:
    match value:
        case str():
            return replace(value)
        case list():
            return [_replaced(item, replace) for item in value]
        case dict():
            return {name: _replaced(member, replace) for name, member in value.items()}
    return value


def _refuse_circles(graph: Graph) -> None:
    """Refuses cycles. The engine refuses them too, but its error does not name the nodes."""
    try:
        TopologicalSorter({node_id: _sources(graph, node_id) for node_id in graph}).prepare()
    except CycleError as error:
        # The last node equals the first one.
        nodes = list(map(str, error.args[1]))[:-1]
        shown = ", ".join(nodes[:MAX_NAMED]) + (", …" if len(nodes) > MAX_NAMED else "")
        raise invalid(f"The workflow has a cycle of the nodes {shown}.", node_ids=nodes) from None


def _refuse_long_chains(graph: Graph) -> None:
    """Refuses long chains. This does not use recursion, because a long chain would exceed Python's limit."""
    depth: dict[str, int] = {}
    for start in graph:
        waiting, under_way = [start], set[str]()
        while waiting:
            node_id = waiting[-1]
            before = [each for each in _sources(graph, node_id) if each not in depth and each not in under_way]
            if node_id not in depth and before and node_id not in under_way:
                under_way.add(node_id)
                waiting.extend(before)
                continue
            waiting.pop()
            depth.setdefault(node_id, 1 + max((depth.get(each, 0) for each in _sources(graph, node_id)), default=0))
            if depth[node_id] > MAX_CHAIN_LENGTH:
                raise invalid(f"The workflow has a chain of more than {MAX_CHAIN_LENGTH} nodes.")


def _sources(graph: Graph, node_id: str) -> list[str]:
    links = (value for value in graph[node_id]["inputs"].values() if isinstance(value, list) and len(value) == 2)
    return [str(link[0]) for link in links if isinstance(link[0], str | int) and str(link[0]) in graph]
