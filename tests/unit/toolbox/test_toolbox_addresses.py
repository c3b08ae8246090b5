from ipaddress import IPv4Address, IPv4Network, IPv6Address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.toolbox.addresses import is_loopback, is_refused

REFUSED = [
    *["0.0.0.0", "0.1.2.3", "10.1.2.3", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.0.1"],
    *["169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.8", "192.0.2.1", "192.88.99.1", "192.168.1.1"],
    *["198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255"],
    *["::", "::1", "::127.0.0.1", "::8.8.8.8", "fe80::1", "fe80::1%eth0", "fec0::1", "fc00::1", "fd00:ec2::254"],
    *["ff02::1", "ff0e::1", "100::1", "2001:db8::1", "2001::1", "2001:20::1", "3fff::1", "5f00::1", "4000::1"],
    *["::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::ffff:0:127.0.0.1"],
    *["64:ff9b::127.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::8.8.8.8"],
    *["2002:7f00:1::", "2002:a9fe:a9fe::", "2002:808:808::", "2606:4700::5efe:10.0.0.1", "2606:4700::200:5efe:7f00:1"],
]
PUBLIC = ["1.1.1.1", "8.8.8.8", "172.32.0.1", "100.128.0.1", "193.0.0.1", "2606:4700:4700::1111", "2a00:1450::1"]


@pytest.mark.parametrize("address", REFUSED)
def test_an_address_that_is_not_public_is_refused(address: str) -> None:
    assert is_refused(address)


@pytest.mark.parametrize("address", [*PUBLIC, "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"])
def test_a_public_address_is_let_through(address: str) -> None:
    assert not is_refused(address)


@pytest.mark.parametrize("address", ["127.0.0.1", "::ffff:127.0.0.1", "64:ff9b::127.0.0.1"])
def test_an_allowed_network_is_allowed_in_every_spelling(address: str) -> None:
    assert not is_refused(address, [ip_network("10.0.0.0/8"), ip_network("127.0.0.0/8")])


def test_allowing_one_network_allows_no_other() -> None:
    allowed = [ip_network("127.0.0.0/8"), ip_network("fd00::/8")]
    assert not is_refused("fd12::1", allowed)
    assert [address for address in REFUSED if not is_refused(address, allowed)] == [
        *["127.0.0.1", "127.255.0.1", "fd00:ec2::254", "::ffff:127.0.0.1", "64:ff9b::127.0.0.1"],
        "2606:4700::200:5efe:7f00:1",
    ]


PRIVATE = [IPv4Network(text) for text in ("10.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "192.168.0.0/16")]


@given(st.sampled_from(PRIVATE), st.integers(0, 2**16 - 1), st.sampled_from(["::ffff:", "64:ff9b::", "::", "2002:"]))
def test_no_ipv6_spelling_of_a_private_address_gets_through(network: IPv4Network, offset: int, prefix: str) -> None:
    address = network[offset]
    if prefix == "2002:":
        spelled = IPv6Address(0x2002 << 112 | int(address) << 80)
    else:
        spelled = IPv6Address(f"{prefix}{address}")
    assert is_refused(spelled)


@given(st.ip_addresses(v=4))
def test_an_address_and_its_mapped_form_are_judged_alike(address: IPv4Address) -> None:
    assert is_refused(address) == is_refused(IPv6Address(f"::ffff:{address}"))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.10", "::1", "localhost", "LocalHost"])
def test_only_this_machine_reaches_a_loopback_host(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    ["0.0.0.0", "::", "", "10.0.0.1", "::ffff:10.0.0.1", "fe80::1", "localhost.example.com", "render-1", "127.1"],
)
def test_other_machines_may_reach_any_other_host(host: str) -> None:
    assert not is_loopback(host)
