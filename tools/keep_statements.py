"""Stores every SQL statement of this version, for the test that schemas of later versions still accept it.

Run it for each release, from 0.1.0 on: `.venv/bin/python -m tools.keep_statements`. The statements are in one
compressed file, so that a search finds only the current statement. Before the first release there is no file.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import callsheet
from callsheet.plumbing.database.sql import DatabaseKind, Statement, parse

KEPT = Path(__file__).parents[1] / "tests" / "samples" / "previous_release.json.gz"
SOURCE = Path(callsheet.__file__).parent


def every_statement() -> dict[str, Statement]:
    files = sorted(file for file in SOURCE.rglob("*.sql") if "migrations" not in file.parts)
    return {
        f"{file.relative_to(SOURCE).as_posix()}:{statement.name}": statement
        for file in files
        for statement in parse(file.read_text("utf-8"), where=str(file))
    }


def kept_statements() -> dict[str, tuple[DatabaseKind, str]]:
    """The kind of database and the text of each stored statement, by name. Empty before the first release."""
    if not KEPT.exists():
        return {}
    stored: dict[str, list[Any]] = json.loads(gzip.decompress(KEPT.read_bytes()))["statements"]
    return {name: (kind, text) for name, (kind, text) in stored.items()}


def main() -> None:
    texts = {name: [statement.database, statement.text] for name, statement in every_statement().items()}
    content = json.dumps({"version": callsheet.__version__, "statements": texts}).encode()
    KEPT.write_bytes(gzip.compress(content, mtime=0))


if __name__ == "__main__":
    main()
