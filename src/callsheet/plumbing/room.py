"""What the control plane needs of a room."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from prometheus_client.registry import Collector

from callsheet.plumbing.database.notify import Listener
from callsheet.toolbox.loops import Loop


class Room(Protocol):
    """A room extends this class and overrides what it has. To open a room starts nothing: the control plane starts the
    loops, registers the metrics and listens. A command opens the same room and uses only its parts.
    """

    __slots__ = ()

    @property
    def loops(self) -> Sequence[Loop]:
        return ()

    @property
    def metrics(self) -> Sequence[Collector]:
        return ()

    def listen(self, listener: Listener) -> None:
        """Subscribes to notifications of the database."""
        return
