"""Finds the statements that run only on ordinary connections, from the source: `async with pool.ordinary() as …`, or
`reports()`, which are ordinary connections that only read, perhaps from a replica.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import callsheet
from callsheet.plumbing.database.database import ORDINARY
from callsheet.plumbing.database.sql import Statement

PACKAGE = Path(callsheet.__file__).parent
# These get their connection, or their statement, from a caller: the source does not show both in one place.
BY_A_CALLER = {
    "fleet": {"list_workers"},
    "media": {
        "files_in_use",
        "find_output_sweeps",
        "find_upload_sweeps",
        "mark_deleted",
        "outputs_of_job",
        "shown_files",
    },
    "operate": {
        "combine_finished",
        "combine_fleet",
        "combine_queues",
        "count_minutes",
        "delete_old_counts",
        "delete_old_fleet_samples",
        "delete_old_queue_samples",
        "delete_old_worker_hours",
        "sample_fleet",
        "sample_queues",
        "sample_workers",
    },
}
# Most files have none, and to parse all of them takes two seconds.
USE = re.compile(r"\b[A-Z][A-Z\d_]*\[")
# For one transaction on a hot connection.
AS_ORDINARY = "; ".join(f"SET LOCAL {name} = {value}" for name, value in ORDINARY.items())


class Use(NamedTuple):
    room: str
    name: str
    statement: Statement
    is_ordinary: bool


@cache
def ordinary_texts() -> frozenset[str]:
    """The texts of the statements that run on ordinary connections only."""
    hot = {use.statement.text for use in _all_uses() if not use.is_ordinary}
    return frozenset({use.statement.text for use in _all_uses() if use.is_ordinary} - hot)


def hot_uses() -> list[tuple[str, str]]:
    """Each statement that a hot connection runs somewhere: its room and its name."""
    return sorted({(use.room, use.name) for use in _all_uses() if not use.is_ordinary})


@cache
def _all_uses() -> Sequence[Use]:
    found: list[Use] = []
    for path in PACKAGE.rglob("*.py"):
        source = path.read_text("utf-8")
        if not USE.search(source):
            continue
        tree = ast.parse(source)
        inside = {node for block in _ordinary_blocks(tree) for node in ast.walk(block)}
        uses = list(_uses(tree))
        if not uses:
            continue
        room, *_ = parts = path.relative_to(PACKAGE).with_suffix("").parts
        module = importlib.import_module(".".join(("callsheet", *parts)))
        for node, variable, name in uses:
            statement = getattr(module, variable, {}).get(name)
            if isinstance(statement, Statement):
                found.append(Use(room, name, statement, node in inside or name in BY_A_CALLER.get(room, ())))
    return found


def _ordinary_blocks(tree: ast.AST) -> Iterator[ast.AsyncWith]:
    for node in ast.walk(tree):
        if isinstance(node, ast.AsyncWith) and any(
            isinstance(item.context_expr, ast.Call)
            and isinstance(item.context_expr.func, ast.Attribute)
            and item.context_expr.func.attr in ("ordinary", "reports")
            for item in node.items
        ):
            yield node


def _uses(tree: ast.AST) -> Iterator[tuple[ast.AST, str, str]]:
    """Each `SQL["name"]`: the node, the variable, the name."""
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(value=ast.Name(id=variable), slice=ast.Constant(value=str(name))) if variable.isupper():
                yield node, variable, name
