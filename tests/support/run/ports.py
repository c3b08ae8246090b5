"""Ports that belong to one process of a test run, also while the server of a test is stopped and starts again.

The system gives out any port that is free at this moment. Another server, or an outgoing connection, can get the same
port before a test uses it. A client that retries a closed port can even connect to itself. So these ports are below
the range that systems give out, beside the range of the embedded PostgreSQL, and each process has a block of its own,
also beside other test runs on the same machine.
"""

from __future__ import annotations

import itertools
import secrets
import socket
from collections.abc import Iterator, Sequence

PORTS = range(10_000, 15_000)
BLOCK = 100
HOST = "127.0.0.1"


class PortBlock:
    """A block of ports. It belongs to this process as long as the socket on its first port is open."""

    def __init__(self, ports: Sequence[int] = PORTS, size: int = BLOCK) -> None:
        self._claim, self._ports = _claimed_block(ports, size)
        # The port that was returned last is returned again last.
        self._next = _endless(self._ports)

    def free_port(self) -> int:
        for port in itertools.islice(self._next, len(self._ports)):
            if is_free(port):
                return port
        raise RuntimeError(f"All {len(self._ports)} ports of this process are in use, from {self._ports[0]} on.")

    def close(self) -> None:
        self._claim.close()


def _claimed_block(ports: Sequence[int], size: int) -> tuple[socket.socket, Sequence[int]]:
    starts = range(0, len(ports), size)
    for start in itertools.islice(_endless(starts), len(starts)):
        claim = socket.socket()
        try:
            claim.bind((HOST, ports[start]))
        except OSError:
            claim.close()
        else:
            return claim, ports[start + 1 : start + size]
    raise RuntimeError(f"All ports from {ports[0]} to {ports[-1]} belong to other processes. Stop other test runs.")


def _endless(values: Sequence[int]) -> Iterator[int]:
    """All values in turn without end, from a random start."""
    first = secrets.randbelow(len(values))
    return itertools.cycle([*values[first:], *values[:first]])


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        # Connections that a previous server left in TIME_WAIT do not block the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


_block = PortBlock()


def free_port() -> int:
    return _block.free_port()
