from ipaddress import IPv4Address, IPv4Network, IPv6Address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.toolbox.http.addresses import is_loopback, is_refused, is_refused_host

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
METADATA = [
    *["169.254.169.254", "169.254.169.253", "169.254.170.2", "169.254.170.23", "168.63.129.16", "100.100.100.200"],
    *["192.0.0.192", "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "::ffff:168.63.129.16", "64:ff9b::a83f:8110"],
]
PUBLIC = ["1.1.1.1", "8.8.8.8", "172.32.0.1", "100.128.0.1", "193.0.0.1", "2606:4700:4700::1111", "2a00:1450::1"]


@pytest.mark.parametrize("address", REFUSED)
def test_an_ip_address_that_is_not_public_is_refused(address: str) -> None:
    assert is_refused(address)


@pytest.mark.parametrize("address", [*PUBLIC, "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"])
def test_a_public_ip_address_is_accepted(address: str) -> None:
    assert not is_refused(address)


@pytest.mark.parametrize("address", ["127.0.0.1", "::ffff:127.0.0.1", "64:ff9b::127.0.0.1"])
def test_an_allowed_network_is_allowed_in_every_spelling(address: str) -> None:
    assert not is_refused(address, [ip_network("10.0.0.0/8"), ip_network("127.0.0.0/8")])


def test_allowing_one_network_allows_no_other() -> None:
    allowed = [ip_network("127.0.0.0/8"), ip_network("fd00::/8")]
    assert not is_refused("fd12::1", allowed)
    assert [address for address in REFUSED if not is_refused(address, allowed)] == [
        *["127.0.0.1", "127.255.0.1", "::ffff:127.0.0.1", "64:ff9b::127.0.0.1"],
        "2606:4700::200:5efe:7f00:1",
    ]


@pytest.mark.parametrize("address", METADATA)
def test_allowing_a_network_does_not_allow_the_metadata_service_of_a_cloud(address: str) -> None:
    everything = [ip_network("0.0.0.0/0"), ip_network("::/0"), ip_network("169.254.0.0/16"), ip_network("fd00::/8")]
    assert is_refused(address)
    assert is_refused(address, everything)


def test_the_metadata_service_can_be_allowed_by_its_own_ip_address() -> None:
    assert not is_refused("169.254.169.254", [ip_network("169.254.169.254/32")])
    assert is_refused("169.254.170.2", [ip_network("169.254.169.254/32")])


# IANA's registries of special-purpose IP addresses (IPv4 and IPv6), where "globally reachable" is not "true". The
# first, the last and one between of each block.
SPECIAL = [
    *["0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24"],
    *["192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"],
    *["224.0.0.0/4", "240.0.0.0/4", "255.255.255.255/32"],
    *["::/128", "::1/128", "::/96", "64:ff9b:1::/48", "100::/64", "100:0:0:1::/64", "2001::/32", "2001:2::/48"],
    *["2001:10::/28", "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10"],
    "ff00::/8",
]


@pytest.mark.parametrize("block", SPECIAL)
def test_no_block_that_is_not_globally_reachable_gets_through(block: str) -> None:
    network = ip_network(block)
    for place in (0, network.num_addresses // 2, network.num_addresses - 1):
        assert is_refused(network[place]), network[place]


PRIVATE = [IPv4Network(text) for text in ("10.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "192.168.0.0/16")]


@given(st.sampled_from(PRIVATE), st.integers(0, 2**16 - 1), st.sampled_from(["::ffff:", "64:ff9b::", "::", "2002:"]))
def test_no_ipv6_spelling_of_a_private_ip_address_is_accepted(network: IPv4Network, offset: int, prefix: str) -> None:
    address = network[offset]
    if prefix == "2002:":
        spelled = IPv6Address(0x2002 << 112 | int(address) << 80)
    else:
        spelled = IPv6Address(f"{prefix}{address}")
    assert is_refused(spelled)


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_and_its_mapped_form_have_the_same_result(address: IPv4Address) -> None:
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


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "api.localhost", "10.0.0.1", "169.254.169.254"])
def test_a_host_that_no_lookup_can_change_is_refused_before_it(host: str) -> None:
    assert is_refused_host(host)
    assert not is_refused_host(host, [ip_network("0.0.0.0/0"), ip_network("::/0"), ip_network("169.254.169.254/32")])


@pytest.mark.parametrize("host", ["example.com", "localhost.example.com", "8.8.8.8", "127.1"])
def test_any_other_host_is_decided_when_it_is_looked_up(host: str) -> None:
    assert not is_refused_host(host)
