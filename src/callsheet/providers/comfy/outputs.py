"""Reads the outputs of a run from an engine's history."""

from __future__ import annotations

import json
import mimetypes
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

from callsheet.providers.engine import Output

# Extensions that the standard library's table lacks or names differently on some systems.
_TYPES = {
    ".webp": "image/webp",
    ".avif": "image/avif",
    ".mp4": "video/mp4",
    ".webm": "video/webm",
    ".mkv": "video/x-matroska",
    ".mov": "video/quicktime",
    ".flac": "audio/flac",
    ".opus": "audio/ogg",
    ".mp3": "audio/mpeg",
    ".wav": "audio/wav",
    ".glb": "model/gltf-binary",
    ".txt": "text/plain",
    ".latent": "application/octet-stream",
}
UNKNOWN_TYPE = "application/octet-stream"
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]|[/\\]")
MAX_NAME_LENGTH = 150
MAX_TEXT_DEPTH = 4
# The folders of an engine that runs write to.
_WRITTEN = ("output", "temp")


def outputs_of(found: object, node_id: str | None = None) -> list[Output]:
    """Every file and text of the node, or of all nodes. Nodes use `images` for videos, `gifs`, `audio`, `files` or
    other names, so each list of objects with a `filename` counts. Saved files come before temporary ones. If there
    is any file, texts are remarks and not results.
    """
    nodes = found if isinstance(found, dict) else {}
    chosen = {node_id: nodes.get(node_id)} if node_id is not None else nodes
    everything = [output for name, node in chosen.items() for output in _of_node(str(name), node)]
    files = [output for output in everything if output.text is None]
    kept = [output for output in files if output.store == "output"]
    return _unique(kept or files or everything)


def files_of(found: object) -> list[Output]:
    """Every file of every node, including previews."""
    nodes = found if isinstance(found, dict) else {}
    return _unique(each for name, node in nodes.items() for each in _of_node(str(name), node) if each.text is None)


def mime_type_of(name: str) -> str:
    suffix = PurePosixPath(name.lower()).suffix
    return _TYPES.get(suffix) or mimetypes.guess_type(f"x{suffix}")[0] or UNKNOWN_TYPE


def public_names(outputs: Sequence[Output]) -> list[str]:
    """A unique name for each output that is valid on every file system."""
    names: list[str] = []
    for output in outputs:
        path = PurePosixPath(_UNPRINTABLE.sub("_", output.name).strip(" .") or "output")
        stem, suffix = path.stem[:MAX_NAME_LENGTH], path.suffix[:20]
        name, number = f"{stem}{suffix}", 1
        while name in names:
            number += 1
            name = f"{stem}-{number}{suffix}"
        names.append(name)
    return names


def remove_files(directory: Path, outputs: Iterable[Output]) -> None:
    """Removes files, but only below the engine's directory."""
    for output in outputs:
        if output.store not in _WRITTEN:
            continue
        store = (directory / output.store).resolve()
        path = (store / output.folder / output.name).resolve()
        if path.is_relative_to(store):
            with suppress(OSError):
                path.unlink()


def _of_node(node_id: str, node: object) -> Iterator[Output]:
    if not isinstance(node, dict):
        return
    for value in node.values():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, dict) and isinstance(item.get("filename"), str) and item["filename"]:
                yield _file(node_id, item)
    strings = _strings(node)
    if strings:
        yield Output(node_id, f"text-{node_id}.txt", text="\n".join(strings))


def _file(node_id: str, item: Mapping[str, Any]) -> Output:
    return Output(node_id, item["filename"], str(item.get("subfolder") or ""), str(item.get("type") or "output"))


def _strings(node: Mapping[str, Any]) -> list[str]:
    return list(_texts(node.get("text"), 0))


def _texts(value: object, depth: int) -> Iterator[str]:
    """Nodes that show any value use lists of texts, numbers and further lists."""
    match value:
        case str():
            yield value
        case bool() | int() | float():
            yield json.dumps(value)
        case list() if depth < MAX_TEXT_DEPTH:
            for item in value:
                yield from _texts(item, depth + 1)


def _unique(outputs: Iterable[Output]) -> list[Output]:
    return list(dict.fromkeys(outputs))
