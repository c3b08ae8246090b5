"""Autoscaling groups to ask about: moto's server in a process of its own, because it takes 200 MB of memory."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.ports import free_port

REGION = "eu-central-1"
# One of those that moto knows; to ask for all of them takes it nine seconds.
IMAGE = "ami-03cf127a"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_DEFAULT_REGION": REGION}
START_SECONDS = 120.0


@contextmanager
def aws_server() -> Iterator[str]:
    """Its URL."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "--host", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait(process, port)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def _wait(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        assert process.poll() is None, "moto's server ended"
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            assert time.monotonic() < deadline, "moto's server did not start"
            time.sleep(0.05)
        else:
            return
