"""The network address of the client of a request, also behind trusted proxies. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network, ip_address

from callsheet.settings.values import Network

# An IPv6 subscriber has at least a network of this size.
SUBSCRIBER_BITS = 64
# Headers that proxies, tunnels and content delivery networks add to a request, and that browsers do not send.
_PROXY_HEADERS = frozenset(
    {
        "cdn-loop",
        "client-ip",
        "forwarded",
        "forwarded-for",
        "proxy-client-ip",
        "true-client-ip",
        "via",
        "wl-proxy-client-ip",
        "x-client-ip",
        "x-cloud-trace-context",
        "x-cluster-client-ip",
        "x-coming-from",
        "x-host",
        "x-proxyuser-ip",
        "x-real-host",
        "x-real-ip",
        "x-real-port",
        "x-remote-addr",
        "x-remote-ip",
        "x-scheme",
        "x-url-scheme",
    }
)
_PROXY_PREFIXES = (
    "cf-",
    "cloudfront-",
    "fastly-",
    "fly-",
    "ngrok-",
    "tailscale-",
    "x-amz-cf-",
    "x-amzn-",
    "x-appengine-",
    "x-arr-",
    "x-azure-",
    "x-envoy-",
    "x-forwarded",
    "x-ngrok-",
    "x-original-",
    "x-proxy-",
    "x-vercel-",
)


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


def was_forwarded(header_names: Iterable[str]) -> bool:
    """Whether a proxy forwarded the request. Then it may come from another machine than its connection.

    A tunnel that forwards bytes adds no header: who must know where a caller is needs another proof, too.
    """
    return any(name in _PROXY_HEADERS or name.startswith(_PROXY_PREFIXES) for name in map(str.lower, header_names))


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
