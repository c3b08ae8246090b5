"""`make chaos` runs these tests in their long form."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--chaos", choices=("short", "long"), default="short", help="how long the chaos tests run")
    parser.addoption("--chaos-seed", type=int, default=None, help="what the kill test shall repeat")


@pytest.fixture
def long_form(pytestconfig: pytest.Config) -> bool:
    # The default again: where pytest was started on another directory, this file comes too late to add an option.
    return bool(pytestconfig.getoption("--chaos", default="short") == "long")
