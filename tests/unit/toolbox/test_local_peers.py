"""The user at the other end of a local connection, read from what the system lists."""

from __future__ import annotations

import os
import socket

import pytest

from callsheet.toolbox.http.local_peers import connections, user_of_peer

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode"
CLIENT = (
    "   1: 0100007F:C35A 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 52301 1 0 20 4 30 10 -1"
)
OF_IPV6 = "   7: 00000000000000000000000001000000:C35A 00000000000000000000000001000000:1F90 01 0:0 00:0 0  33 0 1"
MAPPED = "   7: 0000000000000000FFFF00000100007F:C35A 0000000000000000FFFF00000100007F:1F90 01 0:0 00:0 0  44 0 1"


@pytest.mark.parametrize(
    ("line", "host", "user"), [(CLIENT, "127.0.0.1", 1000), (OF_IPV6, "::1", 33), (MAPPED, "127.0.0.1", 44)]
)
def test_a_line_names_both_ends_and_the_user_of_the_first(line: str, host: str, user: int) -> None:
    assert list(connections([line])) == [(((host, 50010), (host, 8080)), user)]


def test_lines_of_another_form_are_left_out() -> None:
    assert list(connections([HEAD, "", "  1: 0100007F:C35A"])) == []


def test_an_own_connection_belongs_to_the_own_user() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        own = server.getsockname()
        with socket.create_connection(own) as client:
            peer = client.getsockname()
            assert user_of_peer(peer, own) == os.geteuid()
            assert user_of_peer((peer[0], 1), own) is None
            assert user_of_peer(peer, (own[0], 1)) is None
        assert user_of_peer(("no address", 1), own) is None
