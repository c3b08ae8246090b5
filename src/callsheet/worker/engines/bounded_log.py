"""A process's output in a log file of limited size: a full file is renamed and replaces the previous one."""

from __future__ import annotations

from collections import deque
from pathlib import Path

from callsheet.toolbox.logs import get_logger

log = get_logger(__name__)

# Enough for a Python traceback.
TAIL_BYTES = 8192


class BoundedLog:
    """The files `path` and `path.1`, together little more than `max_bytes`."""

    def __init__(self, path: Path, max_bytes: int):
        self.path = path
        self._max_bytes = max_bytes // 2
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._is_reported = False

    def write(self, piece: bytes) -> None:
        """Never raises: a full disk must not stop an engine."""
        self._keep(piece)
        try:
            size = self.path.stat().st_size if self.path.exists() else 0
            if size and size + len(piece) > self._max_bytes:
                self.path.replace(self.path.with_name(f"{self.path.name}.1"))
            with self.path.open("ab") as file:
                file.write(piece)
        except OSError as error:
            if not self._is_reported:
                log.warning("engine.log_not_written", file=str(self.path), reason=str(error))
            self._is_reported = True

    def forget_tail(self) -> None:
        self._tail.clear()
        self._tail_size = 0

    @property
    def tail(self) -> str:
        return b"".join(self._tail)[-TAIL_BYTES:].decode("utf-8", "replace")

    def _keep(self, piece: bytes) -> None:
        self._tail.append(piece)
        self._tail_size += len(piece)
        while len(self._tail) > 1 and self._tail_size - len(self._tail[0]) >= TAIL_BYTES:
            self._tail_size -= len(self._tail.popleft())
