"""Options of pytest for a pooler in front of the server that the tests use: `make test-pgbouncer` sets them."""

from __future__ import annotations

import pytest

from tests.support.database.pgbouncer import TRACKS_STATEMENTS, version_of


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("callsheet")
    group.addoption("--pooler", choices=("session", "transaction"), help="Run through a PgBouncer in this mode.")
    group.addoption("--pgbouncer", default="pgbouncer", help="The program PgBouncer.")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--pooler") == "transaction":
        version = version_of(config.getoption("--pgbouncer"))
        if version < TRACKS_STATEMENTS:
            found, needed = (".".join(map(str, each)) for each in (version, TRACKS_STATEMENTS))
            pytest.exit(
                f"Not run in transaction mode: PgBouncer {found} is installed, and this mode needs {needed}. The run "
                "in session mode has tested that Callsheet refuses it.",
                returncode=0,
            )
