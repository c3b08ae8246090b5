"""A warning of a rule, and functions that several rules use."""

from __future__ import annotations

from dataclasses import dataclass

from callsheet.toolbox.http.addresses import Network, is_loopback_url

# A network shorter than this is a large part of the internet.
WIDE_PREFIX = {4: 8, 6: 16}


@dataclass(frozen=True, slots=True)
class Unsafe:
    """`code` names the rule."""

    code: str
    message: str
    advice: str


def is_plain(url: str | None) -> bool:
    """Whether the connection can be read on the way."""
    return url is not None and url.startswith("http://") and not is_loopback_url(url)


def is_wide(network: Network) -> bool:
    return network.prefixlen < WIDE_PREFIX[network.version]
