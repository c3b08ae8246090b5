"""`make chaos` runs these tests in their long form."""

from __future__ import annotations

from pathlib import Path
from random import randrange

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--chaos", choices=("short", "long"), default="short", help="how long the chaos tests run")
    parser.addoption("--chaos-seed", type=int, default=None, help="what the kill test shall repeat")


@pytest.fixture
def long_form(pytestconfig: pytest.Config) -> bool:
    # The default again: where pytest was started on another directory, this file comes too late to add an option.
    return bool(pytestconfig.getoption("--chaos", default="short") == "long")


@pytest.fixture
def chaos_seed(pytestconfig: pytest.Config, long_form: bool) -> int:
    """The seed is the same every time, except in the long form, which looks for unknown failures."""
    seed = pytestconfig.getoption("--chaos-seed", default=None) or (randrange(2**32) if long_form else 1)
    print(f"--chaos-seed {seed}")  # noqa: T201  shown when the test fails: what to repeat
    return int(seed)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Only `make chaos-patroni` runs the tests of Patroni."""
    return True if collection_path.name == "test_patroni.py" and config.getoption("--patroni") is None else None
