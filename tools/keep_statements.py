"""Stores every SQL statement of this version, for the test that schemas of later versions still accept it.

Run it before a release: `.venv/bin/python -m tools.keep_statements`. The statements are in one compressed file, so that
a search finds only the current statement.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import callsheet
from callsheet.plumbing.database.sql import Statement, parse

KEPT = Path(__file__).parents[1] / "tests" / "samples" / "previous_release.json.gz"
SOURCE = Path(callsheet.__file__).parent


def every_statement() -> dict[str, Statement]:
    files = sorted(file for file in SOURCE.rglob("*.sql") if "migrations" not in file.parts)
    return {
        f"{file.relative_to(SOURCE).as_posix()}:{statement.name}": statement
        for file in files
        for statement in parse(file.read_text("utf-8"), where=str(file))
    }


def main() -> None:
    texts = {name: [statement.database, statement.text] for name, statement in every_statement().items()}
    content = json.dumps({"version": callsheet.__version__, "statements": texts}).encode()
    KEPT.write_bytes(gzip.compress(content, mtime=0))


if __name__ == "__main__":
    main()
