"""Free ports for engines of this machine. No two agents choose the same port."""

from __future__ import annotations

import socket
import sys

from callsheet.toolbox.errors import OperatorError
from callsheet.wire.plurals import counted

HOST = "127.0.0.1"
# How many ports are tried beyond those that are needed.
MAX_PORTS_TRIED = 100


def is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tried:
        # Engines set this option too: a connection that was closed a minute ago does not block the port.
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((HOST, port))
        except OSError:
            return False
    return True


class Ports:
    """Ports that are reserved for this process until it ends. An engine opens its port seconds after its start; until
    then only the reservation shows that the port is taken."""

    def __init__(self) -> None:
        self._reservations: list[socket.socket] = []

    def choose(self, first: int, number: int) -> list[int]:
        """The first `number` free ports from `first` on."""
        chosen: list[int] = []
        for port in range(first, min(first + number + MAX_PORTS_TRIED, 65_536)):
            if len(chosen) == number:
                break
            if is_free(port) and self._reserve(port):
                chosen.append(port)
        if len(chosen) < number:
            raise OperatorError(
                f"There are not {counted(number, 'free port')} from {first} on. Set CALLSHEET_ENGINE__PORT to "
                "another first port."
            )
        return chosen

    def close(self) -> None:
        while self._reservations:
            self._reservations.pop().close()

    def _reserve(self, port: int) -> bool:
        if sys.platform != "linux":
            return True
        # An abstract socket name: unique per network namespace, like a port, and released when the process ends.
        name = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            name.bind(f"\0callsheet-engine-{port}")
        except OSError:
            name.close()
            return False
        self._reservations.append(name)
        return True
