"""Who is approved at once, and who counts as a program of this machine."""

from __future__ import annotations

import pytest
from starlette.requests import Request

from callsheet.fleet.registry.credentials import OWN, Credential, TokenCredential, comes_from_here, fingerprints
from callsheet.fleet.registry.registry import is_approved_at_once
from callsheet.toolbox.http.addresses import is_loopback, is_loopback_url
from callsheet.toolbox.signing import KeyPair
from tests.support.http.fleet_api import LOCAL, REMOTE

TOKEN = TokenCredential(b"1" * 32)


@pytest.mark.parametrize(
    ("credential", "auto_approve", "by_person", "secret_was_revoked", "approved"),
    [
        (TOKEN, None, False, False, True),
        (TOKEN, False, False, True, True),
        (OWN, False, False, True, True),
        (LOCAL, None, False, False, True),
        (LOCAL, False, False, False, False),
        (LOCAL, False, True, False, True),
        (REMOTE, None, False, False, False),
        (REMOTE, None, True, False, True),
        (REMOTE, True, False, False, True),
        # A revoked worker may come back under any id, an approved one's too.
        (LOCAL, None, False, True, False),
        (REMOTE, True, False, True, False),
        (REMOTE, True, True, True, False),
    ],
)
def test_workers_are_approved_automatically_by_the_rules(
    credential: Credential, auto_approve: bool | None, by_person: bool, secret_was_revoked: bool, approved: bool
) -> None:
    verdict = is_approved_at_once(
        credential, auto_approve, approved_by_person=by_person, secret_was_revoked=secret_was_revoked
    )
    assert verdict is approved


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("127.0.0.1", True),
        ("127.8.9.10", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("localhost", True),
        ("LOCALHOST.", True),
        ("callsheet.localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("localhost.example.com", False),
        ("127.0.0.1.example.com", False),
        ("", False),
    ],
)
def test_names_of_this_machine_are_recognized(host: str, here: bool) -> None:
    assert is_loopback(host) is here


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("http://127.0.0.1:8400", True),
        ("http://[::1]:8400", True),
        ("http://localhost", True),
        ("https://callsheet.example.com", False),
        ("http://:8400", False),
    ],
)
def test_urls_of_this_machine_are_recognized(url: str, here: bool) -> None:
    assert is_loopback_url(url) is here


def http_request(peer: str, **headers: str) -> Request:
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "client": (peer, 40_000), "headers": raw})


@pytest.mark.parametrize(
    ("http_request", "public_url", "here"),
    [
        (http_request("127.0.0.1"), "http://127.0.0.1:8400", True),
        (http_request("::1"), "http://localhost:8400", True),
        (http_request("192.0.2.1"), "http://127.0.0.1:8400", False),
        # A proxy on this machine: its client may be anywhere.
        (http_request("127.0.0.1", x_forwarded_for="127.0.0.1"), "http://127.0.0.1:8400", False),
        (http_request("127.0.0.1", forwarded="for=127.0.0.1"), "http://127.0.0.1:8400", False),
        (http_request("127.0.0.1", x_real_ip="127.0.0.1"), "http://127.0.0.1:8400", False),
        (http_request("127.0.0.1", cf_connecting_ip="127.0.0.1"), "http://127.0.0.1:8400", False),
        # One that adds nothing to its requests.
        (http_request("127.0.0.1"), "https://callsheet.example.com", False),
    ],
)
def test_requests_of_this_machine_are_recognized(http_request: Request, public_url: str, here: bool) -> None:
    assert comes_from_here(http_request, public_url) is here


def test_a_fingerprint_needs_the_key_and_is_known_while_the_key_is_rotated() -> None:
    old, new = b"the key before the rotation, 32+", b"the key after the rotation, 32++"
    [kept] = fingerprints(old, "the shared secret")
    assert fingerprints(new, "the shared secret") != (kept,)
    assert kept in fingerprints(KeyPair(new, old), "the shared secret")
    assert kept not in fingerprints(old, "another shared secret")
