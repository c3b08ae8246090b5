"""Ports of tests: no two processes of test runs share one."""

from __future__ import annotations

import socket
from contextlib import closing, suppress

import pytest

from tests.support.run.ports import HOST, PortBlock, free_port

SIZE = 2


def ports_to_claim(number: int) -> list[int]:
    """Free ports without a connection in TIME_WAIT, which an earlier test may have left and which prevents a claim."""
    found: list[int] = []
    while len(found) < number:
        port = free_port()
        with socket.socket() as probe, suppress(OSError):
            probe.bind((HOST, port))
            found.append(port)
    return found


def test_two_test_runs_get_ports_of_their_own_and_a_third_gets_none() -> None:
    ports = ports_to_claim(2 * SIZE)
    with closing(PortBlock(ports, SIZE)) as one:
        with closing(PortBlock(ports, SIZE)) as two:
            assert {one.free_port(), two.free_port()} == {ports[1], ports[3]}
            with pytest.raises(RuntimeError, match="belong to other processes"):
                PortBlock(ports, SIZE)
        with closing(PortBlock(ports, SIZE)) as three:
            assert three.free_port() != one.free_port()
