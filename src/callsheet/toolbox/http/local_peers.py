"""Finds the user at the other end of a local TCP connection, in the list of Linux."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Iterator
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Final

Address = tuple[str, int]
# This file is missing on other systems, which have no other way without additional rights.
_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
# The columns of a line: number, local end, remote end, state, queues, timer, retransmissions, user.
_LOCAL, _REMOTE, _USER = 1, 2, 7


def user_of_peer(peer: Address, own: Address) -> int | None:
    """The id of the user whose process opened the connection from `peer` to `own`; None if it is not known."""
    wanted = (_plain(peer), _plain(own))
    return next((user for ends, user in connections(_lines()) if ends == wanted), None)


def connections(lines: Iterable[str]) -> Iterator[tuple[tuple[Address, Address], int]]:
    """The two ends of each connection, with the user of the first. Pure."""
    for line in lines:
        columns = line.split()
        if len(columns) > _USER and ":" in columns[_LOCAL]:
            yield (_decoded(columns[_LOCAL]), _decoded(columns[_REMOTE])), int(columns[_USER])


def _lines() -> Iterator[str]:
    for table in _TABLES:
        try:
            yield from table.read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue


def _decoded(text: str) -> Address:
    """Decodes `0100007F:1F90` to 127.0.0.1 and 8080: words of 32 bits in the byte order of this machine, then the
    port.
    """
    host, _, port = text.partition(":")
    words = [int(host[at : at + 8], 16) for at in range(0, len(host), 8)]
    family = socket.AF_INET if len(words) == 1 else socket.AF_INET6
    return _plain((socket.inet_ntop(family, struct.pack(f"={len(words)}I", *words)), int(port, 16)))


def _plain(address: Address) -> Address:
    """The IPv4 address of a connection to a server that listens on `::`, which is listed as IPv6."""
    try:
        host = ip_address(address[0])
    except ValueError:
        return address[0], address[1]
    mapped = host.ipv4_mapped if isinstance(host, IPv6Address) else None
    return str(mapped or host), address[1]
