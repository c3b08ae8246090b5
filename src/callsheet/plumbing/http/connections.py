"""Limits the connections and the requests in progress of one network address.

The HTTP server limits all connections together and has no limit per network address. A connection that has not sent its
headers is not a request yet, so the application never sees it: these are found among the descriptors of the process.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from ipaddress import ip_network
from pathlib import Path
from typing import NamedTuple, TypeVar

from callsheet.plumbing.http.client_address import bare_address, client_address, is_in, neighbourhood
from callsheet.settings import ServerSettings
from callsheet.settings.values import Network
from callsheet.toolbox.http.addresses import is_loopback
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.loops import Loop
from callsheet.wire.errors import TooManyConnections

log = get_logger(__name__)
Key = TypeVar("Key")

LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
# Linux, then macOS and the BSDs. On other systems only requests are limited.
DESCRIPTORS = next((each for each in map(Path, ("/proc/self/fd", "/dev/fd")) if each.is_dir()), None)


class Peer(NamedTuple):
    """The other end of a connection."""

    address: str
    port: int


class RequestsInProgress:
    """Counts the requests of each network address and refuses those above the limit. Each request calls it twice."""

    def __init__(self, settings: ServerSettings):
        self._limit = settings.connections_per_address
        self._trusted = settings.trusted_proxies
        self._counts: Counter[str] = Counter()
        # Number of requests by connection: a connection of HTTP/2 may have several.
        self.connections: Counter[Peer] = Counter()
        # A cache, because nearly all requests come from known network addresses.
        self._counted_as = lru_cache(4096)(self._name_to_count)

    def enter(self, peer: Peer, forwarded_for: Sequence[str] = ()) -> str | None:
        """Counts a request. Pass the result to `leave` when the request ends. Raises TooManyConnections."""
        address = client_address(peer.address, forwarded_for, self._trusted) if forwarded_for else peer.address
        client = self._counted_as(address)
        if client is None:
            return None
        if self._counts[client] >= self._limit:
            raise TooManyConnections(self._limit)
        self._counts[client] += 1
        self.connections[peer] += 1
        return client

    def leave(self, peer: Peer, client: str | None) -> None:
        if client is not None:
            _count_down(self._counts, client)
            _count_down(self.connections, peer)

    def _name_to_count(self, address: str) -> str | None:
        """None for programs of this machine and for proxies that name no client: they have no limit."""
        bare = bare_address(address)
        return None if is_loopback(bare) or is_in(bare, self._trusted) else neighbourhood(bare)


def _count_down(counts: Counter[Key], key: Key) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]


def surplus(since: Mapping[Peer, int], busy: Collection[Peer], limit: int) -> list[Peer]:
    """The connections to close so that no network address has more than `limit`. Pure.

    `since`: every connection with the check that first found it. A connection with a request in progress is never
    closed. The oldest of the others are closed first: an honest client sends its request at once.
    """
    by_client: defaultdict[str, list[Peer]] = defaultdict(list)
    for peer in since:
        by_client[neighbourhood(bare_address(peer.address))].append(peer)
    found: list[Peer] = []
    for peers in by_client.values():
        waiting = sorted((peer for peer in peers if peer not in busy), key=since.__getitem__)
        found += waiting[: max(0, len(peers) - limit)]
    return found


class ConnectionLimit(Loop):
    """Closes the connections that a network address has beyond its limit."""

    name = "connection_limit"
    interval_seconds = 1.0

    def __init__(self, settings: ServerSettings, busy: Collection[Peer], own_networks: tuple[Network, ...] = LOOPBACK):
        """`busy` returns the connections that have a request in progress now."""
        super().__init__()
        self._port = settings.port
        self._busy = busy
        self._limit = settings.connections_per_address
        self._exempt = (*own_networks, *settings.trusted_proxies)
        self._since: dict[Peer, int] = {}

    async def tick(self, now: datetime) -> None:
        # Listing the descriptors takes 0.1 ms. Each one is inspected only if there may be too many connections.
        if DESCRIPTORS is None or len(os.listdir(DESCRIPTORS)) <= self._limit:
            self._since.clear()
            return
        found = await asyncio.to_thread(open_connections, self._port)
        counted = [peer for peer in found if not self._is_exempt(peer)]
        self._since = {peer: self._since.get(peer, self.ticks) for peer in counted}
        for_closing = set(surplus(self._since, set(self._busy), self._limit))
        if for_closing:
            await asyncio.to_thread(close_connections, self._port, for_closing)
            addresses = sorted({peer.address for peer in for_closing})
            log.warning(
                "server.connections_closed",
                connections=len(for_closing),
                addresses=addresses[:10],
                limit=self._limit,
                setting="server.connections_per_address",
            )

    def _is_exempt(self, peer: Peer) -> bool:
        return is_in(bare_address(peer.address), self._exempt)


def open_connections(port: int) -> list[Peer]:
    """The clients of all connections to this port."""
    return [peer for peer, _ in _accepted(port)]


def close_connections(port: int, peers: Collection[Peer]) -> None:
    """Shuts the connections down. The server owns them, notices it and closes them."""
    for peer, connection in _accepted(port):
        if peer in peers:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue


def _accepted(port: int) -> Iterator[tuple[Peer, socket.socket]]:
    if DESCRIPTORS is None:
        return
    for name in os.listdir(DESCRIPTORS):
        try:
            # A duplicate, because the descriptor may belong to another connection by the time it is used.
            copied = os.dup(int(name))
        except OSError:
            continue
        try:
            connection = socket.socket(fileno=copied)
        except OSError:  # The descriptor is a file or a pipe.
            os.close(copied)
            continue
        with connection:
            try:
                local, remote = connection.getsockname(), connection.getpeername()
            except OSError:  # The socket listens, or is already closed.
                continue
            if connection.family in (socket.AF_INET, socket.AF_INET6) and local[1] == port:
                yield Peer(remote[0], remote[1]), connection
