"""Removes the graph from result files: engines write it into the metadata.

ComfyUI stores the whole prompt, and all extra data, in every file that it saves. Pixels and packets stay unchanged: a
chunk is removed if nothing depends on its place, and otherwise overwritten with zeros. No decoder is used and no file
is held in memory, so a hostile file only costs the time to read it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from callsheet.providers.engine import EngineError, FetchedOutput
from callsheet.providers.stripping.containers import matroska, mp4
from callsheet.providers.stripping.documents import glb, safetensors, svg
from callsheet.providers.stripping.heif import still
from callsheet.providers.stripping.images import gif, jpeg, png
from callsheet.providers.stripping.pieces import OldFile, Piece, Unreadable, copied, planned, searched
from callsheet.providers.stripping.riff import riff
from callsheet.providers.stripping.sounds import flac, mp3, ogg
from callsheet.toolbox.concurrently import off_loop

Walker = Callable[[OldFile], Iterator[Piece]]
BEGINNING = 16
# Brands of images that use the boxes of videos. The box of a video's tags is the list of their pixels.
STILL_BRANDS = (b"avif", b"avis", b"heic", b"heix", b"hevc", b"mif1", b"msf1")
BOXES = (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip")
_BY_MAGIC: tuple[tuple[bytes, Walker], ...] = (
    (b"\x89PNG\r\n\x1a\n", png),
    (b"\xff\xd8\xff", jpeg),
    (b"GIF87a", gif),
    (b"GIF89a", gif),
    (b"RIFF", riff),
    (b"\x1a\x45\xdf\xa3", matroska),
    (b"fLaC", flac),
    (b"OggS", ogg),
    (b"ID3", mp3),
    (b"glTF", glb),
    (b"<svg", svg),
    (b"<?xml", svg),
)


async def without_graph(path: Path, name: str, fetched: FetchedOutput) -> FetchedOutput:
    """Replaces the file by one without the graph, and returns its size and checksum. A file whose structure is unknown
    or broken stays as it is, unless the graph can be read in it: then the job fails."""
    stop = threading.Event()
    try:
        stripped = await off_loop(fetched.size, strip, path, stop)
    except GraphRemains:
        message = f"The result {name} carries the workflow's graph, which cannot be removed from a file of this kind."
        advice = "Set keep_metadata of the workflow to deliver it, or start ComfyUI with --disable-metadata."
        raise EngineError("graph_in_result", message, details={"name": name, "advice": advice}) from None
    finally:
        # The thread would continue for a canceled job.
        stop.set()
    return stripped or fetched


class GraphRemains(Exception):
    """The graph is in the file at a place where it cannot be removed."""


def strip(path: Path, stop: threading.Event) -> FetchedOutput | None:
    """The new file; None if there was nothing to remove."""
    with path.open("rb") as file:
        source = OldFile(file, stop)
        walker, is_broken = walker_of(source.beginning(BEGINNING)), False
        try:
            plan = planned(source, walker)
        except Unreadable:
            plan, is_broken = None, True
        if plan is None:
            if searched(source, may_be_packed=is_broken and walker is png):
                raise GraphRemains
            return None
        target = path.with_name(f"{path.name}.stripped")
        size, sha256, remains = copied(source, plan, target)
    if remains:
        target.unlink()
        raise GraphRemains
    target.replace(path)
    return FetchedOutput(size, sha256)


def walker_of(beginning: bytes) -> Walker | None:
    for magic, walker in _BY_MAGIC:
        if beginning.startswith(magic):
            return walker
    if beginning[4:8] in BOXES:
        return still if beginning[4:8] == b"ftyp" and beginning[8:12] in STILL_BRANDS else mp4
    if len(beginning) > 1 and beginning[0] == 0xFF and beginning[1] & 0xE0 == 0xE0:
        return mp3
    return safetensors if beginning[8:9] == b"{" else None
