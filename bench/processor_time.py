"""Processor time: of this process, and of the PostgreSQL server with all its processes.

Other programs on the machine change how long something takes, and hardly what it costs.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import psutil  # type: ignore[import-untyped]

from bench.installation import BenchInstallation
from bench.processes import cpu_seconds


def processor_clock(installation: BenchInstallation, pid: int | None = None) -> Callable[[], float]:
    """Seconds that both have spent since they started. With `pid`, that process counts instead of this one."""
    assert installation.databases.embedded is not None, "benchmarks run on an embedded server of their own"
    first_line = (installation.databases.embedded.data_directory / "postmaster.pid").read_text("utf-8").split()[0]
    server = psutil.Process(int(first_line))

    def spent() -> float:
        return (time.process_time() if pid is None else cpu_seconds(pid)) + _of_server(server)

    return spent


def _of_server(server: psutil.Process) -> float:
    times = server.cpu_times()
    # What has ended is counted by the server's first process.
    total = times.user + times.system + times.children_user + times.children_system
    for process in server.children():
        try:
            own = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += own.user + own.system
    return float(total)
