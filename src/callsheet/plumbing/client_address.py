"""The network address of the client of a request, also behind trusted proxies. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network, ip_address

from callsheet.settings.values import Network

# An IPv6 subscriber has at least a network of this size.
SUBSCRIBER_BITS = 64


def client_address(peer: str, forwarded_for: Iterable[str], trusted: tuple[Network, ...]) -> str:
    """The caller's network address. Only entries of X-Forwarded-For that trusted proxies wrote are used.

    `forwarded_for`: the values of all X-Forwarded-For headers. Some proxies add a header instead of appending to the
    client's header.
    """
    address = bare_address(peer)
    if not trusted:
        return address
    forwarded = [part.strip() for part in ",".join(forwarded_for).split(",") if part.strip()]
    while forwarded and is_in(address, trusted):
        address = bare_address(forwarded.pop())
    return address


def bare_address(text: str) -> str:
    """Removes the port and the prefix ::ffff:.

    Some proxies write a port, which differs for each connection, so that no client would be counted twice. A server
    that listens on :: sees IPv4 callers with the prefix ::ffff:.
    """
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
    """The network that counts as one caller: an IPv4 address, or the /64 network of an IPv6 address.

    An IPv6 subscriber has at least a /64. If each IP address had its own limit, a subscriber would have no limit.
    """
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    return str(IPv6Network((parsed, bits), strict=False)) if isinstance(parsed, IPv6Address) else address
