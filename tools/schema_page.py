"""The page docs/schema.md: the tables of a migrated database, by the room that owns them.

It reads a real database, so it shows what the migrations make and not what a person remembers. A test compares the page
with the databases of the tests.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import asyncpg

import callsheet
from callsheet.plumbing.database.migrate import migrate
from callsheet.plumbing.database.sql import DatabaseKind
from callsheet.plumbing.embedded import EmbeddedPostgres
from tools.markdown import GENERATED, table

SOURCE = Path(callsheet.__file__).parent
KINDS: tuple[DatabaseKind, ...] = ("central", "pool")
OWNS = re.compile(r"^-- owns: (.+)$", re.MULTILINE)

INTRODUCTION = """\
# The schema

There are two kinds of database ([why](architecture.md#two-kinds-of-database)): one `central`, and any number of pools,
which hold the rows of tenants. Each table belongs to one room, the only one that writes it. Tables and columns have
these texts as comments, so `\\d+` in `callsheet db shell` shows them, too.

In the diagrams, a line is a foreign key. There is none across databases: rooms write such ids in a fixed order instead.
"""
# The tables of each kind of database, and the foreign keys between them.
TABLES = """
SELECT c.oid::bigint, c.relname AS name, coalesce(obj_description(c.oid, 'pg_class'), '') AS meaning,
    c.relkind = 'v' AS is_view
FROM pg_class c
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'v')
ORDER BY c.oid
"""
COLUMNS = """
SELECT a.attrelid::bigint AS table_oid, a.attnum::integer AS number, a.attname AS name,
    replace(format_type(a.atttypid, a.atttypmod), 'timestamp with time zone', 'timestamptz') AS type,
    a.attnotnull AS is_required,
    coalesce(col_description(a.attrelid, a.attnum), '') AS meaning
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'v') AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attrelid, a.attnum
"""
INDEXES = """
SELECT x.indrelid::bigint AS table_oid, i.relname AS name, x.indisprimary AS is_primary, x.indisunique AS is_unique,
    regexp_replace(pg_get_indexdef(i.oid), '^.* USING ', '') AS definition
FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid
WHERE i.relnamespace = 'public'::regnamespace
ORDER BY x.indrelid, i.oid
"""
REFERENCES = """
SELECT f.conrelid::bigint AS table_oid, f.conname AS name, r.relname AS target, f.conkey::integer[] AS numbers,
    EXISTS (
        SELECT FROM pg_index x
        WHERE x.indrelid = f.conrelid AND x.indisunique AND x.indpred IS NULL
          AND (x.indkey::smallint[])[0:x.indnkeyatts - 1] <@ f.conkey
    ) AS is_unique
FROM pg_constraint f JOIN pg_class r ON r.oid = f.confrelid
WHERE f.contype = 'f' AND f.connamespace = 'public'::regnamespace
ORDER BY f.conrelid, f.conkey, f.conname
"""


class Table(NamedTuple):
    oid: int
    name: str
    meaning: str
    is_view: bool


class Column(NamedTuple):
    table_oid: int
    number: int
    name: str
    type: str
    is_required: bool
    meaning: str


class Index(NamedTuple):
    table_oid: int
    name: str
    is_primary: bool
    is_unique: bool
    definition: str


class Reference(NamedTuple):
    table_oid: int
    name: str
    target: str
    numbers: Sequence[int]
    is_unique: bool


class Schema(NamedTuple):
    tables: Sequence[Table]
    columns: Sequence[Column]
    indexes: Sequence[Index]
    references: Sequence[Reference]


def owned_tables() -> list[tuple[str, str]]:
    """(table, room), as the files of statements say."""
    return [
        (name.strip(), file.relative_to(SOURCE).parts[0])
        for file in sorted(SOURCE.rglob("*statements.sql"))
        for line in OWNS.findall(file.read_text("utf-8"))
        for name in line.split(",")
    ]


async def read_schema(dsn: str) -> Schema:
    connection = await asyncpg.connect(dsn)
    try:
        return Schema(
            [Table(*row) for row in await connection.fetch(TABLES)],
            [Column(*row) for row in await connection.fetch(COLUMNS)],
            [Index(*row) for row in await connection.fetch(INDEXES)],
            [Reference(*row) for row in await connection.fetch(REFERENCES)],
        )
    finally:
        await connection.close()


def schema_page(schemas: Mapping[DatabaseKind, Schema]) -> str:
    owners = dict(owned_tables())
    parts = [GENERATED, INTRODUCTION]
    for kind in KINDS:
        schema = schemas[kind]
        parts.append(f"## {'Central' if kind == 'central' else 'Each pool'}\n")
        # A view comes after the tables that it reads, and belongs to the room of the table before it.
        rooms: list[tuple[str, Table]] = []
        for each in schema.tables:
            rooms.append((owners.get(each.name) or rooms[-1][0], each))
        # In the order in which they are created: a room comes after those that it refers to.
        order = [room for room, _ in rooms]
        rooms.sort(key=lambda pair: (order.index(pair[0]), pair[1].oid))
        for room, members in groupby(rooms, lambda pair: pair[0]):
            parts += _room(room, [each for _, each in members], schema)
    return "\n".join(parts)


def _room(room: str, tables: Sequence[Table], schema: Schema) -> Iterator[str]:
    yield f"### `{room}/`\n"
    yield f"```mermaid\n{_diagram(tables, schema)}\n```\n"
    for each in tables:
        yield f"#### `{each.name}`\n\n{each.meaning}\n"
        yield table(("column", "type", "meaning"), _column_rows(each, schema))
        indexes = [_index_text(index) for index in schema.indexes if index.table_oid == each.oid]
        if indexes:
            yield f"Indexes: {', '.join(indexes)}.\n"


def _column_rows(each: Table, schema: Schema) -> Iterator[tuple[str, ...]]:
    references = [reference for reference in schema.references if reference.table_oid == each.oid]
    for column in schema.columns:
        if column.table_oid == each.oid:
            targets = [reference.target for reference in references if _is_named_by(column, reference)]
            meaning = " ".join([column.meaning, *(f"Refers to `{target}`." for target in targets)]).strip()
            may_be_null = "" if column.is_required or each.is_view else " or NULL"
            yield f"`{column.name}`", f"{column.type}{may_be_null}", meaning


def _is_named_by(column: Column, reference: Reference) -> bool:
    """Rows of a tenant also refer by the tenant, which says nothing about this column."""
    names_row = column.name != "tenant_id" or len(reference.numbers) == 1
    return names_row and column.number in reference.numbers


def _index_text(index: Index) -> str:
    kind = "primary key" if index.is_primary else "unique" if index.is_unique else ""
    return " ".join(filter(None, (f"`{index.name}`", kind, f"`{index.definition.removeprefix('btree ')}`")))


def _diagram(tables: Sequence[Table], schema: Schema) -> str:
    """The tables of the room, and those of other rooms that they refer to."""
    lines = ["erDiagram", *(f"  {each.name}" for each in tables)]
    names = {column.table_oid: {} for column in schema.columns}  # type: dict[int, dict[int, Column]]
    for column in schema.columns:
        names[column.table_oid][column.number] = column
    for each in tables:
        for reference in schema.references:
            if reference.table_oid == each.oid:
                columns = [names[each.oid][number] for number in reference.numbers]
                label = ", ".join(column.name for column in columns if _is_named_by(column, reference))
                parent = "||" if all(column.is_required for column in columns) else "|o"
                lines.append(
                    f"  {reference.target} {parent}--{'o|' if reference.is_unique else 'o{'} {each.name} : {label}"
                )
    return "\n".join(lines)


async def page_of_a_new_database() -> str:
    """The page of databases that are made for it and removed afterwards."""
    with tempfile.TemporaryDirectory() as directory:
        server = await EmbeddedPostgres.start(Path(directory))
        try:
            schemas: dict[DatabaseKind, Schema] = {}
            admin = await asyncpg.connect(server.dsn("postgres"))
            for kind in KINDS:
                await admin.execute(f'CREATE DATABASE "schema_{kind}" TEMPLATE template0')
                await migrate(server.dsn(f"schema_{kind}"), kind, kind if kind == "central" else "pool_1")
                schemas[kind] = await read_schema(server.dsn(f"schema_{kind}"))
            await admin.close()
        finally:
            await server.close()
    return schema_page(schemas)
