"""Which files each process of `make test` runs (`--dist each`): shares that take about the same time.

Each process collects its share only. To collect all tests takes ten seconds of a processor and 150 MB, and with
`--dist loadfile` each process does so.

How long a file takes is in `seconds.json`, without the short ones. `make tests ARGS=--record-seconds` measures it
again.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parents[2]
SECONDS = Path(__file__).with_name("seconds.json")
# Files that take less than this are not listed.
MIN_SECONDS = 0.5
# The files of these directories share a browser and a running demo.
TOGETHER = ("browser",)


class Shares:
    """Runs in the process that the others report to."""

    def __init__(self, processes: int):
        self._processes = processes
        self._collected = 0
        self._session: Any = None

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self._session = session

    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput["shares"] = self._processes

    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self._collected += len(ids)

    def pytest_runtest_logstart(self) -> None:
        # xdist takes the collection of the last process as the whole.
        self._session.testscollected = self._collected


class Recorder:
    """Writes how long each file took."""

    def __init__(self) -> None:
        self._seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid.partition("::")[0].removeprefix(f"{TESTS.name}/")] += report.duration

    def pytest_sessionfinish(self) -> None:
        measured = {name: round(seconds, 1) for name, seconds in self._seconds.items() if seconds >= MIN_SECONDS}
        SECONDS.write_text(json.dumps(measured, indent=0, sort_keys=True) + "\n", "utf-8")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record-seconds", action="store_true", help="write how long each file takes (seconds.json)")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput") and config.getoption("--record-seconds"):
        config.pluginmanager.register(Recorder())
    if not hasattr(config, "workerinput") and config.getoption("dist", "no") == "each":
        config.pluginmanager.register(Shares(len(config.getvalue("tx"))))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if collection_path.is_file() and not _is_of_this_process(collection_path, config) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A file that is named on the command line is always collected."""
    items[:] = [item for item in items if _is_of_this_process(item.path, config)]


def _is_of_this_process(path: Path, config: pytest.Config) -> bool:
    process = getattr(config, "workerinput", {})
    if "shares" not in process:
        return True
    number = int(process["workerid"].removeprefix("gw"))
    return path in shares(process["shares"])[number % process["shares"]]


@cache
def shares(count: int) -> list[set[Path]]:
    """Assigns the longest file first, each to the process with the least time."""
    found: list[set[Path]] = [set() for _ in range(count)]
    loads = [0.0] * count
    measured = json.loads(SECONDS.read_text("utf-8"))
    units = defaultdict[Path, list[Path]](list)
    for path in sorted(TESTS.rglob("test_*.py")):
        units[path.parent if path.relative_to(TESTS).parts[0] in TOGETHER else path].append(path)
    seconds = {unit: sum(_seconds(path, measured) for path in paths) for unit, paths in units.items()}
    for unit in sorted(units, key=lambda unit: seconds[unit], reverse=True):
        lightest = loads.index(min(loads))
        found[lightest].update(units[unit])
        loads[lightest] += seconds[unit]
    return found


def _seconds(path: Path, measured: dict[str, float]) -> float:
    return measured.get(path.relative_to(TESTS).as_posix(), MIN_SECONDS / 2)
