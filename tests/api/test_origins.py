"""Only pages of our own URLs may use a browser's session, and on loopback requests for any other host are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.plumbing.http.own_addresses import OwnAddresses
from callsheet.settings import load_settings
from tests.api.conftest import Started
from tests.support.http.accounts import PASSWORD, People
from tests.support.http.responses import assert_refused

ALL_ADDRESSES = "0.0.0.0"


def own_origins(directory: Path, **server: Any) -> OwnAddresses:
    return OwnAddresses(load_settings(home=directory, server={"port": 8400, **server}))


@pytest.mark.parametrize(
    ("server", "host", "is_accepted"),
    [
        ({}, "127.0.0.1:8400", True),
        ({}, "localhost:8400", True),
        ({}, "[::1]:8400", True),
        ({}, "127.0.0.7", True),
        # Through a tunnel, from another port of this machine.
        ({}, "localhost:9000", True),
        ({}, "", True),
        ({}, "evil.example:8400", False),
        ({}, "localhost.evil.example:8400", False),
        ({}, "127.0.0.1.nip.io:8400", False),
        ({}, "192.168.1.5:8400", False),
        ({}, "callsheet.example.com", False),
        ({}, "[::1", False),
        ({"public_url": "https://callsheet.example.com"}, "callsheet.example.com", True),
        ({"public_url": "https://callsheet.example.com"}, "CALLSHEET.example.com:443", True),
        ({"public_url": "https://callsheet.example.com"}, "evil.example", False),
        ({"allowed_origins": "http://studio.lan:8400"}, "studio.lan:8400", True),
        ({"host": "localhost"}, "localhost:8400", True),
        ({"host": "localhost"}, "evil.example", False),
        ({"host": ALL_ADDRESSES}, "192.168.1.5:8400", True),
        ({"host": ALL_ADDRESSES}, "studio.lan:8400", True),
    ],
)
def test_a_loopback_server_serves_only_its_own_host_names(
    tmp_path: Path, server: dict[str, Any], host: str, is_accepted: bool
) -> None:
    assert own_origins(tmp_path, **server).accepts_host(host) is is_accepted


@pytest.mark.parametrize(
    ("server", "origin", "host", "is_own"),
    [
        ({}, "http://127.0.0.1:8400", "127.0.0.1:8400", True),
        ({}, "http://localhost:8400", "localhost:8400", True),
        ({}, "http://[::1]:8400", "[::1]:8400", True),
        ({}, "http://localhost:9000", "localhost:9000", True),
        ({"host": ALL_ADDRESSES}, "http://192.168.1.5:8400", "192.168.1.5:8400", True),
        ({"host": "studio.lan"}, "http://studio.lan:8400", "studio.lan:8400", True),
        ({"allowed_origins": "http://studio.lan:8400"}, "http://studio.lan:8400", "studio.lan:8400", True),
        ({"public_url": "https://callsheet.example.com"}, "https://callsheet.example.com", "10.0.0.7:8400", True),
        # The Host proves nothing: in DNS rebinding it is the attacker's too.
        ({}, "http://evil.example:8400", "evil.example:8400", False),
        ({"host": ALL_ADDRESSES}, "http://evil.example:8400", "evil.example:8400", False),
        ({"public_url": "https://callsheet.example.com"}, "http://callsheet.example.com", "x", False),
        ({"public_url": "https://callsheet.example.com"}, "https://evil.example", "evil.example", False),
        # Another program of this machine.
        ({}, "http://localhost:3000", "localhost:8400", False),
        ({}, "null", "localhost:8400", False),
        ({}, "null", "null", False),
        ({}, "", "", False),
        ({}, "http://", "", False),
    ],
)
def test_only_pages_of_own_origins_count_as_own_pages(
    tmp_path: Path, server: dict[str, Any], origin: str, host: str, is_own: bool
) -> None:
    assert own_origins(tmp_path, **server).is_own_page(origin, host) is is_own


def test_no_setting_allows_pages_of_all_sites_to_use_the_session(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="must name each origin"):
        load_settings(home=tmp_path, server={"allowed_origins": "*"})


async def test_a_rebound_host_name_is_refused(client: httpx.AsyncClient, plane: ControlPlane) -> None:
    rebound = {"host": f"evil.example:{plane.settings.server.port}"}
    for path in ("/", "/healthz", "/metrics", "/api/me", "/docs", "/openapi.json"):
        problem = assert_refused(await client.get(path, headers=rebound), 421, "wrong_host", "header host")
        assert "server.allowed_origins" in problem["detail"]
    login = {"email": "x", "password": "y"}
    response = await client.post(
        "/api/auth/login", json=login, headers={**rebound, "origin": f"http://{rebound['host']}"}
    )
    assert_refused(response, 421, "wrong_host", "header host")


async def test_the_host_header_does_not_make_an_origin_trusted(started: Started) -> None:
    """Beyond loopback, requests for every host are accepted; the session still belongs to known URLs only."""
    async with started(server={"host": ALL_ADDRESSES}) as (plane, client):
        person = await People(plane.rooms.identity.accounts, plane.rooms.identity.keys).user()
        login = {"email": person.user.email, "password": PASSWORD}
        port = plane.settings.server.port
        rebound = {"host": f"evil.example:{port}", "origin": f"http://evil.example:{port}"}
        problem = assert_refused(await client.post("/api/auth/login", json=login, headers=rebound), 403, "csrf_failed")
        assert "server.allowed_origins" in problem["detail"]
        for name in (f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}"):
            own = {"host": name, "origin": f"http://{name}"}
            assert (await client.post("/api/auth/login", json=login, headers=own)).status_code == 200
            assert (await client.get("/api/me", headers=own)).status_code == 200
            assert_refused(await client.get("/api/me", headers=rebound), 403, "csrf_failed")
            assert_refused(await client.get("/api/me", headers={"origin": "null"}), 403, "csrf_failed")
