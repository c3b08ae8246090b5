"""Images that an engine sends over its socket and nowhere else (ComfyUI: SaveImageWebsocket).

The agent stores them until it fetches the outputs of the run. It stores them in a file without a name, because a batch
of large images does not fit into its memory.
"""

from __future__ import annotations

import hashlib
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from callsheet.providers.engine import FetchedOutput

PIECE = 262_144


@dataclass(frozen=True, slots=True, eq=False)
class StoredImage:
    """One image."""

    file: IO[bytes]
    start: int
    size: int

    def save(self, target: Path) -> FetchedOutput:
        digest, left = hashlib.sha256(), self.size
        self.file.seek(self.start)
        with target.open("wb") as copy:
            while left and (piece := self.file.read(min(PIECE, left))):
                copy.write(piece)
                digest.update(piece)
                left -= len(piece)
        return FetchedOutput(self.size - left, digest.hexdigest())


class SocketImages:
    """The images that runs of an engine sent over the socket, one file per run."""

    def __init__(self) -> None:
        self._files: dict[str, IO[bytes]] = {}

    def keep(self, run_id: str, image: bytes) -> StoredImage:
        file = self._files.get(run_id)
        if file is None:
            file = self._files[run_id] = tempfile.TemporaryFile()  # noqa: SIM115 (closed when the run is forgotten)
        start = file.seek(0, 2)
        file.write(image)
        return StoredImage(file, start, len(image))

    def forget(self, run_id: str) -> None:
        file = self._files.pop(run_id, None)
        if file is not None:
            with suppress(OSError):
                file.close()

    def close(self) -> None:
        for run_id in list(self._files):
            self.forget(run_id)
