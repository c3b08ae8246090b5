"""What a run made, read from an engine's history. Pure."""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from callsheet.providers.engine import EngineError, Graph, Output

# What the standard library's table leaves out or calls otherwise on some systems.
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
LONGEST_NAME = 150


def outputs_of(found: object, node_id: str | None = None) -> list[Output]:
    """Every file and text of the node, or of all: nodes say `images` for videos, `gifs`, `audio`, `files` or a word of
    their own, so each list of objects with a `filename` counts. Kept files go before temporary ones; with any
    file there, texts are remarks and not results."""
    nodes = found if isinstance(found, dict) else {}
    chosen = {node_id: nodes.get(node_id)} if node_id is not None else nodes
    everything = [output for name, node in chosen.items() for output in _of_node(str(name), node)]
    files = [output for output in everything if output.text is None]
    kept = [output for output in files if output.store == "output"]
    return _unique(kept or files or everything)


def refuse_foreign(outputs: Sequence[Output], graph: Graph, run_id: str, cached: Collection[str]) -> None:
    """An engine with a warm cache answers with the files of an earlier run, which may have been another user's. A node
    that takes a prefix got one with the run's id in it; of any other it is enough that it ran."""
    for output in outputs:
        named = "filename_prefix" in graph.get(output.node_id, {}).get("inputs", {}) and output.store == "output"
        own = run_id in f"{output.folder}/{output.name}"
        if output.text is None and not own and (named or output.node_id in cached):
            raise EngineError(
                "foreign_output",
                "The engine answered with a file of an earlier run.",
                details={"node_id": output.node_id, "name": output.name},
            )


def mime_type_of(name: str) -> str:
    suffix = PurePosixPath(name.lower()).suffix
    return _TYPES.get(suffix) or mimetypes.guess_type(f"x{suffix}")[0] or UNKNOWN_TYPE


def public_names(outputs: Sequence[Output]) -> list[str]:
    """A name for each that a file may have anywhere, and that no other of them has."""
    names: list[str] = []
    for output in outputs:
        path = PurePosixPath(_UNPRINTABLE.sub("_", output.name).strip(" .") or "output")
        stem, suffix = path.stem[:LONGEST_NAME], path.suffix[:20]
        name, number = f"{stem}{suffix}", 1
        while name in names:
            number += 1
            name = f"{stem}-{number}{suffix}"
        names.append(name)
    return names


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
    value = node.get("text")
    return [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, str)]


def _unique(outputs: Iterable[Output]) -> list[Output]:
    return list(dict.fromkeys(outputs))
