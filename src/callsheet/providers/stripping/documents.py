"""Files with a JSON or XML part: models (GLB), tensors (latents of ComfyUI) and SVG."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from typing import Any

from callsheet.providers.stripping.pieces import OldFile, Piece, Unreadable

# A parsed document takes twenty times as much memory.
MAX_DOCUMENT_BYTES = 8 * 1024 * 1024
_METADATA, _METADATA_END = b"<metadata", b"</metadata>"


def glb(source: OldFile) -> Iterator[Piece]:
    length, kind = struct.unpack("<I4s", source.read(12, 8))
    if kind != b"JSON":
        raise Unreadable("it does not start with a description")

    def without_extras(document: dict[str, Any]) -> None:
        document.pop("extras", None)
        if isinstance(document.get("asset"), dict):
            document["asset"].pop("extras", None)

    return _with_json(source, 20, length, without_extras)


def safetensors(source: OldFile) -> Iterator[Piece]:
    def without_metadata(document: dict[str, Any]) -> None:
        found = document.pop("__metadata__", None)
        if isinstance(found, dict) and "format" in found:
            # With this key, a loader knows which library wrote the tensors.
            document["__metadata__"] = {"format": found["format"]}

    return _with_json(source, 8, source.number(0, 8, little=True), without_metadata)


def _with_json(source: OldFile, at: int, length: int, change: Callable[[dict[str, Any]], None]) -> Iterator[Piece]:
    """Replaces a document by the changed one, padded with spaces: what follows must keep its place."""
    if length > MAX_DOCUMENT_BYTES:
        raise Unreadable("its description is too large")
    old = source.read(at, length)
    try:
        document = json.loads(old)
        before = json.dumps(document)
        change(document)
        if json.dumps(document) == before:
            yield source.span(0, source.size)
            return
        new = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise Unreadable("its description is not JSON") from None
    if len(new) > length:
        raise Unreadable("its description would become longer")
    yield source.span(0, at)
    yield new.ljust(length)
    yield source.span(at + length, source.size)


def svg(source: OldFile) -> Iterator[Piece]:
    if source.size > MAX_DOCUMENT_BYTES:
        raise Unreadable("it is too large for a drawing")
    at, text = 0, source.read(0, source.size)
    while (start := text.find(_METADATA, at)) >= 0:
        end = text.find(_METADATA_END, start)
        if end < 0:
            raise Unreadable("its metadata does not end")
        yield source.span(at, start)
        at = end + len(_METADATA_END)
    yield source.span(at, source.size)
