"""Each table has one room that writes it. Another room calls a function of that room, or its Python."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from callsheet.plumbing.embedded import EmbeddedPostgres
from tools.keep_statements import SOURCE, every_statement
from tools.schema_page import owned_tables

WRITES = re.compile(r"\b(?:INSERT INTO|UPDATE|DELETE FROM|TRUNCATE(?: TABLE)?|MERGE INTO)\s+(?:ONLY\s+)?([a-z_]+)")
NO_WRITES = re.compile(r"--[^\n]*|'(?:[^']|'')*'|\bFOR (?:NO KEY )?UPDATE\b|\bDO UPDATE\b")


def written(text: str) -> set[str]:
    return set(WRITES.findall(NO_WRITES.sub(" ", text)))


def python_texts() -> Iterator[tuple[str, str]]:
    """Every text in Python that could be SQL: (module, text)."""
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield file.relative_to(SOURCE).as_posix(), node.value


def foreign_writes(texts: Iterator[tuple[str, str]]) -> list[str]:
    owners = dict(owned_tables())
    return [
        f"{name} writes {table}, which {owners[table]} owns"
        for name, text in texts
        for table in sorted(written(text))
        if table in owners and owners[table] != Path(name).parts[0]
    ]


def test_no_room_writes_a_table_of_another_room() -> None:
    assert foreign_writes((name, one.text) for name, one in every_statement().items()) == []
    assert foreign_writes(python_texts()) == []


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("text", "tables"),
    [
        ("INSERT INTO files (id) VALUES (1)", {"files"}),
        ("WITH a AS (UPDATE videos v SET x = 1), b AS (\n    DELETE FROM\n    outbox) SELECT 1", {"videos", "outbox"}),
        ("INSERT INTO a VALUES (1) ON CONFLICT (id) DO UPDATE SET x = 1", {"a"}),
        ("SELECT 1 FROM jobs FOR NO KEY UPDATE -- UPDATE files", set()),
        ("SELECT 'DELETE FROM files'", set()),
    ],
)
def test_tables_that_a_statement_writes_are_found(text: str, tables: set[str]) -> None:
    assert written(text) == tables


def test_a_foreign_write_would_be_noticed() -> None:
    texts = [("jobs/statements.sql:move", "UPDATE videos SET status = 'x'"), ("media/a.py", "UPDATE videos SET x = 1")]
    assert foreign_writes(iter(texts)) == ["jobs/statements.sql:move writes videos, which media owns"]


async def test_every_table_has_exactly_one_owner(postgres: EmbeddedPostgres, templates: dict[str, str]) -> None:
    existing: set[str] = set()
    for name in ("central", "pool_1"):
        connection = await asyncpg.connect(postgres.dsn(templates[name]))
        try:
            rows = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        finally:
            await connection.close()
        existing |= {row["tablename"] for row in rows}
    tables = [table for table, _ in owned_tables()]
    assert sorted(tables) == sorted(set(tables))
    assert set(tables) == existing
