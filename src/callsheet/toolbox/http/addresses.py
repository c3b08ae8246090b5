"""Decides which network addresses a user-supplied URL may lead to, and which ones only this machine reaches."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# The standard library's `is_global` follows IANA's registries of its release date: Python 3.11.7 treats all of these as
# public. 192.88.99.0/24 and 2002::/16 are 6to4, which could reach any IPv4 address.
_REFUSED = (
    IPv4Network("0.0.0.0/8"),
    IPv4Network("100.64.0.0/10"),
    IPv4Network("192.0.0.0/24"),
    IPv4Network("192.88.99.0/24"),
    IPv6Network("2001::/23"),
    IPv6Network("2002::/16"),
    IPv6Network("3fff::/20"),
)
# The IP addresses where clouds give credentials to any process on the machine: AWS (machine, ECS, EKS), Google, Azure,
# Alibaba, Oracle. Azure's is a public IP address; the others are in networks that an operator may allow for other
# reasons.
_METADATA = frozenset(
    ip_address(text)
    for text in (
        *("169.254.169.254", "169.254.170.2", "169.254.170.23", "169.254.169.253", "168.63.129.16"),
        *("100.100.100.200", "192.0.0.192", "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254"),
    )
)
# All publicly routed IP addresses are in this network; the rest of IPv6 is special or unassigned.
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)


def is_refused(address: Address | str, allow_networks: Iterable[Network] = ()) -> bool:
    """Whether the IP address is private, local, multicast, reserved or leads to such an IP address, and is not
    explicitly allowed.

    The metadata service of a cloud is refused unless a network allows exactly that IP address.
    """
    given = ip_address(address)
    effective = _embedded(given) or given
    if effective in _METADATA:
        return not any(network.num_addresses == 1 and effective in network for network in allow_networks)
    if any(candidate in network for network in allow_networks for candidate in (given, effective)):
        return False
    if isinstance(effective, IPv6Address) and effective not in _GLOBAL_UNICAST:
        return True
    return (
        not effective.is_global
        or effective.is_multicast
        or effective.is_reserved
        or any(effective in network for network in _REFUSED)
    )


def is_refused_host(host: str, allow_networks: Iterable[Network] = ()) -> bool:
    """The same for the host of a URL. A name is refused only if it is a name of this machine: any other name must be
    looked up first."""
    try:
        return is_refused(host, allow_networks)
    except ValueError:
        return is_loopback(host) and is_refused("127.0.0.1", allow_networks)


def is_loopback(host: str) -> bool:
    """Whether a host name or network address leads to this machine only. Any other name may lead anywhere."""
    try:
        address = ip_address(host)
    except ValueError:
        name = host.lower().removesuffix(".")
        return name == "localhost" or name.endswith(".localhost")
    # A server that listens on :: sees callers of IPv4 as ::ffff:127.0.0.1.
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def is_loopback_url(url: str) -> bool:
    return is_loopback(urlsplit(url).hostname or "")


def _embedded(address: Address) -> IPv4Address | None:
    """The IPv4 address inside this IPv6 address to which packets are sent, if there is one."""
    if isinstance(address, IPv4Address):
        return None
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    value = int(address)
    if address in _NAT64 or value >> 32 & 0xFFFF_FFFF in _ISATAP:
        return IPv4Address(value & 0xFFFF_FFFF)
    return None
