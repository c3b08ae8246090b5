"""Which inputs of a graph name files. Pure.

An engine opens or writes the file that such an input names, so neither users nor jobs may choose a path there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

Graph = Mapping[str, Any]
LINK_LENGTH = 2

_LOADER = re.compile(r"(?<!un)(?<!off)load", re.IGNORECASE)
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_MEDIA = frozenset({"image", "video", "audio", "mask"})
_FILE_WORDS = frozenset(
    {"file", "files", "filename", "filenames", "filepath", "path", "paths", "folder", "folders", "subfolder"}
    | {"dir", "dirs", "dirname", "directory", "directories", "url", "urls", "uri"}
)


def is_link(value: Any) -> bool:
    # This is the rule of ComfyUI (comfy_execution.graph_utils.is_link).
    return (
        isinstance(value, list)
        and len(value) == LINK_LENGTH
        and isinstance(value[0], str)
        and isinstance(value[1], int | float)
    )


def takes_file(class_type: str, name: str) -> bool:
    """Whether an engine opens the value of this input as a file: a path like ../../secret would be read or written."""
    return is_loader(class_type) or name.lower() in _MEDIA or _names_file(name)


def is_loader(class_type: str) -> bool:
    return bool(_LOADER.search(class_type))


def _names_file(name: str) -> bool:
    """Whether the input's name, such as `file_name`, `imagePath` or `output_dir`, names a file for any node."""
    words = {word.lower() for word in _WORDS.findall(name)}
    return not _FILE_WORDS.isdisjoint(words) or ("name" in words and not _MEDIA.isdisjoint(words))


def nodes_that_name_files(graph: Graph) -> set[str]:
    """Nodes whose outputs reach, through any number of nodes, an input that names a file: their texts are part of
    that name.
    """
    found: set[str] = set()
    waiting = [
        value[0]
        for node in graph.values()
        for name, value in node["inputs"].items()
        if is_link(value) and _names_file_by_link(node["class_type"], name)
    ]
    while waiting:
        node_id = waiting.pop()
        if node_id in graph and node_id not in found:
            found.add(node_id)
            waiting += [value[0] for value in graph[node_id]["inputs"].values() if is_link(value)]
    return found


def _names_file_by_link(class_type: str, name: str) -> bool:
    """Whether a linked input names a file. This is stricter than for texts: a link to `image` or `model` is mostly
    the object itself.
    """
    of_loader = is_loader(class_type) and (name.lower() in _MEDIA or name.lower().endswith("_name"))
    return of_loader or _names_file(name)
