"""docs/schema.md shows the databases as they are, and every table says what a row is."""

from __future__ import annotations

from pathlib import Path

import asyncpg

from callsheet.plumbing.database.migrate import known_migrations
from callsheet.plumbing.database.sql import commands
from callsheet.plumbing.embedded import EmbeddedPostgres
from tests.support.database.migration_rules import BASELINE, CREATED_TABLE, plain
from tools.schema_page import KINDS, Schema, owned_tables, read_schema, schema_page

# Primary keys and NOT NULL say what they protect by themselves.
NAMED_CONSTRAINTS = """
SELECT c.relname AS table, f.conname AS name FROM pg_constraint f JOIN pg_class c ON c.oid = f.conrelid
WHERE f.connamespace = 'public'::regnamespace AND f.contype IN ('c', 'f', 'u', 'x')
"""
PAGE = Path(__file__).parents[2] / "docs" / "schema.md"


async def schemas_of(postgres: EmbeddedPostgres, templates: dict[str, str]) -> dict[str, Schema]:
    return {
        kind: await read_schema(postgres.dsn(templates["central" if kind == "central" else "pool_1"])) for kind in KINDS
    }


async def test_the_page_shows_the_migrated_databases(postgres: EmbeddedPostgres, templates: dict[str, str]) -> None:
    page = schema_page(await schemas_of(postgres, templates))
    assert PAGE.read_text(encoding="utf-8") == page, "docs/schema.md is stale: run `make docs`"
    assert [table for table, _ in owned_tables() if f"#### `{table}`\n" not in page] == []


async def test_every_table_says_what_a_row_is(postgres: EmbeddedPostgres, templates: dict[str, str]) -> None:
    for schema in (await schemas_of(postgres, templates)).values():
        assert len(schema.tables) > 20
        assert [table.name for table in schema.tables if not table.meaning.endswith(".")] == []
        assert [column.name for column in schema.columns if column.meaning and not column.meaning.endswith(".")] == []


async def test_every_constraint_has_a_name_that_says_what_it_protects(
    postgres: EmbeddedPostgres, templates: dict[str, str]
) -> None:
    """A name that PostgreSQL chose starts with the table. Refused rows are reported by these names."""
    for kind in KINDS:
        connection = await asyncpg.connect(postgres.dsn(templates["central" if kind == "central" else "pool_1"]))
        try:
            found = [(row["table"], row["name"]) for row in await connection.fetch(NAMED_CONSTRAINTS)]
        finally:
            await connection.close()
        assert len(found) > 100
        assert [name for table, name in found if name.startswith(f"{table}_")] == []


def test_each_file_of_the_baseline_has_the_tables_of_the_room_in_its_name() -> None:
    owners = dict(owned_tables())
    created = [
        (table.lower(), migration.name.partition("_")[0])
        for kind in KINDS
        for migration in known_migrations(kind)[: BASELINE[kind]]
        for table in CREATED_TABLE.findall(plain_lines(migration.sql))
    ]
    assert len(created) > 80
    assert [(table, room) for table, room in created if owners[table] != room] == []


def plain_lines(sql: str) -> str:
    return "\n".join(plain(command) for command in commands(sql))
