"""No test leaves a program of ours running: the end of a run ends programs that are left, and names their tests.

Programs that a test starts with `tied` end with the test run, also if the test run is killed.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

import psutil
import pytest

from callsheet.worker.engines import engine_launcher

# Set in the environment of each program that this process starts, unless a test replaces the environment.
MARK = "TESTS_OF_PROCESS"
# Limit for programs that were asked to end at the end of the last test, on a busy machine.
SECONDS = 60.0


def tied(*command: str) -> tuple[str, ...]:
    """The command, as a program that the kernel ends with this process (on Linux)."""
    return (sys.executable, "-I", "-S", engine_launcher.__file__, str(os.getpid()), *command)


def left_over(mark: str) -> dict[psutil.Process, str]:
    """The programs that were started with the mark, with the test that started each and its command line."""
    found = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            command, environment = process.cmdline(), process.environ()
            if _is_ours(command) and environment.get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found[process] = f"{environment.get('PYTEST_CURRENT_TEST')}: {' '.join(command)}"
    return found


def _is_ours(command: list[str]) -> bool:
    """`python -m callsheet …`, `python -m callsheet.worker …` or the installed command, but no embedded PostgreSQL."""
    module = command[2].partition(".")[0] if command[1:2] == ["-m"] and len(command) > 2 else None
    return module == "callsheet" or any(part.endswith("bin/callsheet") for part in command[:2])


@pytest.fixture(scope="session", autouse=True)
def _nothing_is_left_running() -> Iterator[None]:
    os.environ[MARK] = mark = str(os.getpid())
    yield
    deadline = time.monotonic() + SECONDS
    while (found := left_over(mark)) and time.monotonic() < deadline:
        time.sleep(0.1)
    for process in found:
        with suppress(psutil.Error):
            process.kill()
    assert not found, list(found.values())
