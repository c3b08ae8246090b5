"""Finds the host of a request, and the page that sent it. Pure.

A page of evil.example whose name suddenly leads to 127.0.0.1 (DNS rebinding) sends `Host: evil.example`, and for the
browser this server is the page's own origin. So neither header proves the other; a name counts only if it is known to
be ours. IP addresses and localhost cannot be rebound, so they are trusted.
"""

from __future__ import annotations

from ipaddress import ip_address


def name_in(authority: str) -> str | None:
    """The host of `host`, `host:port` or `[::1]:port`, in lower case; None if there is no valid host."""
    if authority.startswith("["):
        name, bracket, rest = authority[1:].partition("]")
        port = rest.removeprefix(":") if rest.startswith(":") else rest
        well_formed = bool(bracket) and (not rest or rest.startswith(":"))
    else:
        name, _, port = authority.partition(":")
        well_formed = True
    if not name or not well_formed or (port and not port.isdecimal()):
        return None
    return name.lower().removesuffix(".")


def authority_in(origin: str) -> str:
    """`host:port` of an origin like https://host:port; empty if there is none, for example for `null`."""
    scheme, mark, authority = origin.partition("://")
    return authority.lower() if mark and scheme.lower() in ("http", "https") else ""


def is_ip_or_localhost(name: str) -> bool:
    """Whether no DNS server decides where the name leads: it is an IP address, or localhost."""
    if name == "localhost":
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
