"""Which files each process of `make test` runs (`--dist each`): a share of its own, of about the same time for all.

Each process collects its share only. To collect all tests takes ten seconds of a processor and 150 MB, and with
`--dist loadfile` each process does so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parents[1]
# How long a kilobyte of tests takes compared with one of the unit tests. Measured; it only decides who waits for whom.
WEIGHTS = {"api": 2, "integration": 3, "worker": 5, "conformance": 2, "browser": 10}
# Their files share a browser and a demo that runs.
TOGETHER = ("browser",)


class Shares:
    """In the process that the others report to."""

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
        # xdist takes what the last process collected for all there is.
        self._session.testscollected = self._collected


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput") and config.getoption("dist", "no") == "each":
        config.pluginmanager.register(Shares(len(config.getvalue("tx"))))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if collection_path.is_file() and not _is_of_this_process(collection_path, config) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A file that is named on the command line is collected in any case."""
    items[:] = [item for item in items if _is_of_this_process(item.path, config)]


def _is_of_this_process(path: Path, config: pytest.Config) -> bool:
    process = getattr(config, "workerinput", {})
    if "shares" not in process:
        return True
    number = int(process["workerid"].removeprefix("gw"))
    return path in shares(process["shares"])[number % process["shares"]]


@cache
def shares(count: int) -> list[set[Path]]:
    """The largest first, each to the process that has the least."""
    found: list[set[Path]] = [set() for _ in range(count)]
    loads = [0] * count
    units = defaultdict[Path, list[Path]](list)
    for path in sorted(TESTS.rglob("test_*.py")):
        units[path.parent if _room(path) in TOGETHER else path].append(path)
    for paths in sorted(units.values(), key=_weight, reverse=True):
        least = loads.index(min(loads))
        found[least].update(paths)
        loads[least] += _weight(paths)
    return found


def _weight(paths: Iterable[Path]) -> int:
    return sum(path.stat().st_size * WEIGHTS.get(_room(path), 1) for path in paths)


def _room(path: Path) -> str:
    return path.relative_to(TESTS).parts[0]
