"""Ports of tests: no two processes of test runs share one."""

from __future__ import annotations

from contextlib import closing

import pytest

from tests.support.ports import PortBlock, free_port

SIZE = 2


def test_two_test_runs_get_ports_of_their_own_and_a_third_gets_none() -> None:
    ports = [free_port() for _ in range(2 * SIZE)]
    with closing(PortBlock(ports, SIZE)) as one:
        with closing(PortBlock(ports, SIZE)) as two:
            assert {one.free_port(), two.free_port()} == {ports[1], ports[3]}
            with pytest.raises(RuntimeError, match="belong to other processes"):
                PortBlock(ports, SIZE)
        with closing(PortBlock(ports, SIZE)) as three:
            assert three.free_port() != one.free_port()
