"""Reports tests that take too long for `make test`, and the memory of each process.

The report is printed at the end of a run and is never a failure: a verdict must not depend on the machine. Time is that
of the processor, in the test's own process and in those it started and saw end, because a busy machine lets everything
take longer.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

SECONDS = 10.0
MEGABYTES = 500
COST = "cpu_seconds"

_peaks = pytest.StashKey[dict[str, float]]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    before = _processor_seconds()
    try:
        return (yield)
    finally:
        item.user_properties.append((COST, _processor_seconds() - before))


def pytest_sessionfinish(session: pytest.Session) -> None:
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["peak"] = peak_megabytes()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    # A process that crashed reports nothing.
    output = getattr(node, "workeroutput", {})
    if "peak" in output:
        peaks = node.config.stash.setdefault(_peaks, {})  # type: ignore[attr-defined]
        peaks[node.gateway.id] = output["peak"]  # type: ignore[attr-defined]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    dear = [line for reports in terminalreporter.stats.values() for report in reports for line in _dear(report)]
    peaks = config.stash.get(_peaks, {}) or {"this process": peak_megabytes()}
    for line in sorted(dear):
        terminalreporter.write_line(line, yellow=True)
    for name, peak in sorted(peaks.items()):
        too_large = f", more than {MEGABYTES}" if peak > MEGABYTES else ""
        terminalreporter.write_line(f"peak memory of {name}: {peak:.0f} MB{too_large}", yellow=bool(too_large))


def _dear(report: object) -> list[str]:
    if not isinstance(report, pytest.TestReport) or report.when != "call" or "thorough" in report.keywords:
        return []
    seconds = dict(report.user_properties).get(COST, 0.0)
    if not isinstance(seconds, float) or seconds <= SECONDS:
        return []
    return [f"{seconds:.0f} s of processor time, more than {SECONDS:.0f} (make it thorough?): {report.nodeid}"]


def _processor_seconds() -> float:
    taken = os.times()
    return taken.user + taken.system + taken.children_user + taken.children_system


def peak_megabytes() -> float:
    """The peak memory of this process."""
    status = Path("/proc/self/status")
    if status.exists():
        # getrusage is not used: on Linux it includes the process that started this one.
        return int(status.read_text().partition("VmHWM:")[2].split()[0]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024 if sys.platform == "darwin" else 1024)
