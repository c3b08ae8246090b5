import pytest

from callsheet.toolbox.http.origins import authority_in, is_ip_or_localhost, name_in


@pytest.mark.parametrize(
    ("authority", "name"),
    [
        ("localhost", "localhost"),
        ("LocalHost:8400", "localhost"),
        ("127.0.0.1:8400", "127.0.0.1"),
        ("[::1]:8400", "::1"),
        ("[::1]", "::1"),
        ("evil.example.", "evil.example"),
        ("evil.example:8400", "evil.example"),
        ("", None),
        (":8400", None),
        ("[::1", None),
        ("[::1]evil", None),
        ("[]:80", None),
        ("localhost:port", None),
        ("localhost:80:80", None),
        ("127.0.0.1@evil.example", "127.0.0.1@evil.example"),
    ],
)
def test_the_host_name_is_found_in_an_origin(authority: str, name: str | None) -> None:
    assert name_in(authority) == name


@pytest.mark.parametrize(
    ("origin", "authority"),
    [
        ("http://localhost:8400", "localhost:8400"),
        ("HTTPS://Callsheet.Example.com", "callsheet.example.com"),
        ("null", ""),
        ("", ""),
        ("localhost:8400", ""),
        ("file://localhost", ""),
        ("http://", ""),
    ],
)
def test_an_authority_is_found_in_an_origin(origin: str, authority: str) -> None:
    assert authority_in(origin) == authority


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "::1", "192.168.1.5", "203.0.113.9", "2001:db8::1"])
def test_ip_addresses_and_localhost_always_lead_to_the_same_host(name: str) -> None:
    assert is_ip_or_localhost(name)


@pytest.mark.parametrize("name", ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "127.1", "", "studio"])
def test_names_can_be_pointed_to_another_host(name: str) -> None:
    assert not is_ip_or_localhost(name)
