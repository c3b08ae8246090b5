"""The network address of the client of a request, also behind trusted proxies. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network, ip_address

from callsheet.settings.values import Network

# One subscriber of IPv6 has at least this network.
SUBSCRIBER_BITS = 64


def client_address(peer: str, forwarded_for: Iterable[str], trusted: tuple[Network, ...]) -> str:
    """The caller's network address; X-Forwarded-For counts only as far as it was written by proxies we trust.

    `forwarded_for`: the values of all its lines. Some proxies add a line of their own instead of appending to the
    client's.
    """
    address = bare_address(peer)
    if not trusted:
        return address
    forwarded = [part.strip() for part in ",".join(forwarded_for).split(",") if part.strip()]
    while forwarded and is_in(address, trusted):
        address = bare_address(forwarded.pop())
    return address


def bare_address(text: str) -> str:
    """Without the port that some proxies write (a new one for each connection, so no client would be counted twice),
    and without the ::ffff: under which a server that listens on :: sees callers of IPv4."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    return text.removeprefix("::ffff:")


def is_in(address: str, networks: Iterable[Network]) -> bool:
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    return any(parsed in network for network in networks)


@lru_cache(4096)
def neighbourhood(address: str, bits: int = SUBSCRIBER_BITS) -> str:
    """A subscriber of IPv6 has a /64 at least: counted one by one, its IP addresses would never run out."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    return str(IPv6Network((parsed, bits), strict=False)) if isinstance(parsed, IPv6Address) else address
