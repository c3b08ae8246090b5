"""All statements of a room by name, whichever of its folders has them.

JOBS = statements_of_room("jobs")
plan = await explain_once(pool, JOBS["list_jobs"], {…})
"""

from __future__ import annotations

from collections.abc import Mapping

from callsheet.plumbing.database.sql import Statement
from tools.keep_statements import every_statement


def statements_of_room(room: str) -> Mapping[str, Statement]:
    """A name that the room has twice is left out: a test names the folder of that statement."""
    found: dict[str, list[Statement]] = {}
    for place, statement in every_statement().items():
        if place.startswith(f"{room}/"):
            found.setdefault(statement.name, []).append(statement)
    return {name: statements[0] for name, statements in found.items() if len(statements) == 1}
