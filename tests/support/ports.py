"""Ports that a server of a test can be sure of, from the moment one is chosen until it listens, and again after it was
killed.

Port 0 gives any that is free at this moment: the next server that asks for one, or the next connection that a program
opens, may be given the same before it is used, and who tries a closed one for long can end up connected to himself. So
these lie below the range that systems give out, beside that of the embedded PostgreSQL, and each process of a test run
has its own.
"""

from __future__ import annotations

import itertools
import os
import re
import secrets
import socket
from collections.abc import Iterator

PORTS = range(10_000, 15_000)
# As many processes of a run have none in common.
PROCESSES = 8


def _own() -> Iterator[int]:
    """Those of this process, round and round: what was given last is given again last."""
    number = re.search(r"\d+$", os.environ.get("PYTEST_XDIST_WORKER", ""))
    own = PORTS[int(number[0]) % PROCESSES if number else 0 :: PROCESSES]
    begin = secrets.randbelow(len(own))
    return itertools.cycle([*own[begin:], *own[:begin]])


_ports = _own()


def free_port() -> int:
    return next(port for port in _ports if is_free(port))


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        # Connections that a previous server left in TIME_WAIT do not block the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
