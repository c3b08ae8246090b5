"""Every statement of every room is one that PostgreSQL accepts on the migrated schema, and code uses only those."""

from __future__ import annotations

import ast
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import date, datetime
from decimal import Decimal
from enum import EnumMeta
from functools import cache
from importlib import import_module
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints
from uuid import UUID

import asyncpg
import pytest
from pydantic import BaseModel, Field

import callsheet
from callsheet.dispatch.facts import QueueEntry
from callsheet.plumbing.database.sql import Contained, Statement, contained_in, parse
from callsheet.plumbing.embedded import EmbeddedPostgres

SOURCE = Path(callsheet.__file__).parent
FILES = sorted(file for file in SOURCE.rglob("*.sql") if "migrations" not in file.parts)
STATEMENTS = {
    f"{file.relative_to(SOURCE)}:{statement.name}": statement
    for file in FILES
    for statement in parse(file.read_text("utf-8"), where=str(file))
}


@asynccontextmanager
async def migrated(
    postgres: EmbeddedPostgres, templates: dict[str, str], kind: str
) -> AsyncIterator[asyncpg.Connection]:
    """The templates themselves: preparing changes nothing. Closed at once: a template in use cannot be copied."""
    connection = await asyncpg.connect(postgres.dsn(templates["central" if kind == "central" else "pool_1"]))
    try:
        yield connection
    finally:
        await connection.close()


async def check(connection: asyncpg.Connection, statement: Statement) -> None:
    prepared = await connection.prepare(statement.text)
    assert len(prepared.get_parameters()) == len(statement.parameters)


def test_both_kinds_of_databases_have_statements() -> None:
    assert {statement.database for statement in STATEMENTS.values()} == {"central", "pool"}


@pytest.mark.parametrize("database", ["central", "pool"])
async def test_postgresql_accepts_every_statement(
    postgres: EmbeddedPostgres, templates: dict[str, str], database: str
) -> None:
    refused = {}
    async with migrated(postgres, templates, database) as connection:
        for name, statement in STATEMENTS.items():
            if statement.database == database:
                try:
                    await check(connection, statement)
                except (asyncpg.PostgresError, AssertionError) as error:
                    refused[name] = str(error)
    assert not refused


# A payload may have megabytes. Who may read it, and how many rows that is.
READS_PAYLOADS = {
    "payload_of_job": "one job",
    "start_jobs": "jobs that are handed to a worker at this moment",
    "job_of_candidate": "one job, to be submitted again",
    "ancestors": "one job for each step of a pipeline",
    "steps_of_pipeline": "the steps of one pipeline, with their own payloads",
    "steps_of_versions": "as many bytes as a page may have",
    "steps_of_run": "the steps of one run, with their own payloads",
    "read_steps": "the steps of one run, with their own payloads",
}
# The same for results, which may have a megabyte each.
READS_RESULTS = {
    "get_job": "one job",
    "find_by_idempotency_key": "one job",
    "outcomes_of_jobs": "as many bytes as a page may have",
}


async def returned_columns(postgres: EmbeddedPostgres, templates: dict[str, str]) -> dict[str, set[str]]:
    found = {}
    async with migrated(postgres, templates, "pool") as connection:
        for statement in STATEMENTS.values():
            if statement.database == "pool":
                attributes = (await connection.prepare(statement.text)).get_attributes()
                found[statement.name] = {attribute.name for attribute in attributes}
    return found


def record_of(part: str, file: str) -> tuple[str, ...]:
    """The columns that a part with the definition of a record names."""
    text = (SOURCE / file).read_text("utf-8").split(f"-- part: {part}\n")[1].split("\n\n")[0]
    return tuple(each.split()[0] for each in re.sub("^--.*", "", text, flags=re.MULTILINE).split(","))


def test_the_queue_reads_every_field_of_an_entry() -> None:
    """`jsonb_to_recordset` ignores a field that its record does not name."""
    named = record_of("entry_record", "dispatch/statements.sql")
    assert sorted(named) == sorted((*QueueEntry._fields, "lane_tenant_id", "lane_user_id"))


async def test_no_list_reads_payloads_or_results(postgres: EmbeddedPostgres, templates: dict[str, str]) -> None:
    columns = await returned_columns(postgres, templates)
    assert {name for name, found in columns.items() if "payload" in found} == set(READS_PAYLOADS)
    assert {name for name, found in columns.items() if "result" in found} == set(READS_RESULTS)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("-- database: central\n-- name: wrong\nSELECT emial FROM users", 'column "emial" does not exist'),
        ("-- database: pool\n-- name: wrong\nSELECT id FROM users", 'relation "users" does not exist'),
        ("-- database: central\n-- name: wrong\nSELECT 1; SELECT 2", "multiple commands"),
        (
            "-- database: central\n-- name: wrong\nSELECT id FROM users WHERE id = :email::text",
            "operator does not exist",
        ),
    ],
)
async def test_a_wrong_statement_would_be_noticed(
    postgres: EmbeddedPostgres, templates: dict[str, str], text: str, reason: str
) -> None:
    [statement] = parse(text)
    async with migrated(postgres, templates, statement.database) as connection:
        with pytest.raises(asyncpg.PostgresError, match=reason):
            await check(connection, statement)


def loaded_files(tree: ast.Module) -> Iterator[tuple[str, Path]]:
    """`NAME = statements("callsheet.room", "file.sql")` at the top of a module: the name and the file.

    A module of the same room may import that NAME from it.
    """
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module and any(alias.name.endswith("SQL") for alias in node.names):
            there = SOURCE.joinpath(*node.module.split(".")[1:]).with_suffix(".py")
            names = {alias.name for alias in node.names}
            yield from (found for found in loaded_files(ast.parse(there.read_text("utf-8"))) if found[0] in names)
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Call)
            and ast.unparse(node.value.func) == "statements"
        ):
            package, *rest = [ast.literal_eval(argument) for argument in node.value.args]
            folder = SOURCE.joinpath(*package.split(".")[1:])
            yield ast.unparse(node.targets[0]), folder / (rest[0] if rest else "statements.sql")


def modules_with_statements() -> Iterator[tuple[Path, ast.Module]]:
    """One at a time: the trees of all modules take 80 MB. Most modules name no statement and need no parsing."""
    for module in SOURCE.rglob("*.py"):
        text = module.read_text("utf-8")
        if "statements(" in text or "SQL" in text:
            yield module, ast.parse(text)


def uses() -> Iterator[tuple[str, str, str]]:
    """Every `SQL["name"]`: the module, the file of statements, the name."""
    for module, tree in modules_with_statements():
        files = dict(loaded_files(tree))
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Subscript)
                and isinstance(node.value, ast.Name)
                and node.value.id in files
                and isinstance(node.slice, ast.Constant | ast.IfExp)
            ):
                for name in names_of(node.slice):
                    yield str(module.relative_to(SOURCE)), str(files[node.value.id]), name


@cache
def typed_uses() -> dict[str, tuple[Statement, type[NamedTuple | BaseModel]]]:
    """Every `SQL["name"].rows(connection, Class, …)` in the code: the statement, and the class of its rows."""
    found: dict[str, tuple[Statement, type[NamedTuple | BaseModel]]] = {}
    for file, tree in modules_with_statements():
        files = dict(loaded_files(tree))
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and len(node.args) > 1):
                continue
            read = node.func.value
            if not (isinstance(read, ast.Subscript) and isinstance(read.value, ast.Name) and read.value.id in files):
                continue
            module = import_module(".".join(("callsheet", *file.relative_to(SOURCE).with_suffix("").parts)))
            row_class = eval(ast.unparse(node.args[1]), vars(module))
            for name in names_of(read.slice):
                statement = STATEMENTS[f"{files[read.value.id].relative_to(SOURCE)}:{name}"]
                found[f"{file.relative_to(SOURCE)}:{node.lineno}:{name}"] = (statement, row_class)
    return found


def names_of(index: ast.expr) -> Iterator[str]:
    """The names in `SQL["name"]` and in `SQL["one" if … else "other"]`."""
    if isinstance(index, ast.IfExp):
        yield from names_of(index.body)
        yield from names_of(index.orelse)
    else:
        yield ast.literal_eval(index)


# The types that asyncpg returns. A type that is not listed here is not compared.
PYTHON_TYPES: dict[str, object] = {
    **dict.fromkeys(("int2", "int4", "int8"), int),
    **dict.fromkeys(("text", "varchar"), str),
    **dict.fromkeys(("float4", "float8"), float),
    "bool": bool,
    "uuid": UUID,
    "timestamptz": datetime,
    "date": date,
    "numeric": Decimal,
    "bytea": bytes,
}


def mismatches(attributes: Sequence[asyncpg.Attribute], row_class: type[NamedTuple | BaseModel]) -> list[str]:
    """How the columns of a statement differ from the fields of the class of its rows."""
    columns = tuple(attribute.name for attribute in attributes)
    if difference := name_difference(columns, row_class):
        return [difference]
    hints = hints_of(columns, row_class)
    return [
        f"{each.name} is {each.type.name} in PostgreSQL and {hints[each.name]} in {row_class.__name__}"
        for each in attributes
        if not is_of_type(hints[each.name], each.type)
    ]


def hints_of(columns: tuple[str, ...], row_class: type[NamedTuple | BaseModel]) -> dict[str, Any]:
    """The type of each column, also of the columns of a value that the row contains."""
    hints = get_type_hints(row_class)
    if issubclass(row_class, BaseModel):
        return hints
    pieces = list(contained_in(row_class))
    for each in pieces:
        if isinstance(each, Contained):
            inner = get_type_hints(each.row_class)
            hints |= {name_in(columns, each, name): inner[name] for name in each.row_class._fields}
    return hints


def name_in(columns: tuple[str, ...], contained: Contained, name: str) -> str:
    """The column of a contained value: if the row has another column of this name, it starts with the field's name."""
    long = f"{contained.field}_{name}"
    return long if long in columns else name


def flat_names(columns: tuple[str, ...], row_class: type[Any]) -> Iterator[str]:
    for each in contained_in(row_class):
        if isinstance(each, str):
            yield each
        else:
            yield from (name_in(columns, each, name) for name in each.row_class._fields)


def name_difference(columns: tuple[str, ...], row_class: type[NamedTuple | BaseModel]) -> str | None:
    """A NamedTuple has the columns in their order. A model has every column, and a default for all its other fields."""
    if issubclass(row_class, BaseModel):
        fields = row_class.model_fields
        needed = {name for name, field in fields.items() if field.is_required()}
        differ, shown = not needed <= set(columns) <= fields.keys(), tuple(fields)
    else:
        shown = tuple(flat_names(columns, row_class))
        differ = columns != shown
    return f"the columns are {columns}, the fields of {row_class.__name__} are {shown}" if differ else None


def is_of_type(hint: object, database_type: asyncpg.Type) -> bool:
    members = [member for member in flat(hint) if member is not type(None)]
    if Any in members:
        return True
    if database_type.kind == "array":
        return all(get_origin(member) in (list, tuple, Sequence) or member in (list, Sequence) for member in members)
    wanted = PYTHON_TYPES.get(database_type.name)
    plain = {type(get_args(member)[0]) if get_origin(member) is Literal else member for member in members}
    return wanted is None or {base_of(member) for member in plain} == {wanted}


def base_of(member: object) -> object:
    """`str` for an enumeration of texts."""
    return member._member_type_ if isinstance(member, EnumMeta) else member


def flat(hint: object) -> tuple[object, ...]:
    if get_origin(hint) is Annotated:
        return flat(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return tuple(member for each in get_args(hint) for member in flat(each))
    return (hint,)


async def test_rows_have_the_columns_and_types_of_their_class(
    postgres: EmbeddedPostgres, templates: dict[str, str]
) -> None:
    found = typed_uses()
    wrong = {}
    for database in ("central", "pool"):
        async with migrated(postgres, templates, database) as connection:
            for where, (statement, row_class) in found.items():
                if statement.database == database:
                    attributes = (await connection.prepare(statement.text)).get_attributes()
                    if differences := mismatches(attributes, row_class):
                        wrong[where] = differences
    assert found
    assert not wrong


@pytest.mark.parametrize("database", ["central", "pool"])
async def test_a_new_column_of_a_table_changes_no_typed_row(
    postgres: EmbeddedPostgres, templates: dict[str, str], database: str
) -> None:
    """A release serves on the schema of the next one, and `SELECT *` would return one column too many for its class."""
    found = {where: use for where, use in typed_uses().items() if use[0].database == database}
    changed = {}
    async with migrated(postgres, templates, database) as connection:
        change = connection.transaction()
        await change.start()
        tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        for table in tables:
            await connection.execute(f'ALTER TABLE "{table["tablename"]}" ADD COLUMN of_the_next_release integer')
        for where, (statement, row_class) in found.items():
            attributes = (await connection.prepare(statement.text)).get_attributes()
            if differences := mismatches(attributes, row_class):
                changed[where] = differences
        await change.rollback()
    assert tables
    assert not changed


class Pair(NamedTuple):
    number: int
    name: str | None


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("columns", "difference"),
    [
        ("1 AS number, 'a' AS name", None),
        ("1 AS number", "the columns are"),
        ("'a' AS name, 1 AS number", "the columns are"),
        ("1.5::float8 AS number, 'a' AS name", "number is float8"),
        ("1 AS number, ARRAY['a'] AS name", "name is text[]"),
    ],
)
async def test_a_row_class_that_differs_from_its_statement_would_be_noticed(
    postgres: EmbeddedPostgres, columns: str, difference: str | None
) -> None:
    connection = await asyncpg.connect(postgres.dsn("postgres"))
    try:
        found = mismatches((await connection.prepare(f"SELECT {columns}")).get_attributes(), Pair)
    finally:
        await connection.close()
    assert [text.startswith(difference or "") for text in found] == ([] if difference is None else [True])


class Couple(NamedTuple):
    left: Pair
    place: int
    right: Pair | None


@pytest.mark.parametrize(
    ("columns", "difference"),
    [
        ("1 AS number, 'a' AS name, 2 AS place, 3 AS right_number, 'b' AS right_name", None),
        ("1 AS number, 'a' AS name, 2 AS place, 3 AS right_number", "the columns are"),
        ("2 AS place, 1 AS number, 'a' AS name, 3 AS right_number, 'b' AS right_name", "the columns are"),
        ("1 AS number, 'a' AS name, 2 AS place, 'c' AS right_number, 'b' AS right_name", "right_number is text"),
    ],
)
async def test_a_contained_value_that_differs_from_its_columns_would_be_noticed(
    postgres: EmbeddedPostgres, columns: str, difference: str | None
) -> None:
    connection = await asyncpg.connect(postgres.dsn("postgres"))
    try:
        found = mismatches((await connection.prepare(f"SELECT {columns}")).get_attributes(), Couple)
    finally:
        await connection.close()
    assert [text.startswith(difference or "") for text in found] == ([] if difference is None else [True])


async def test_contained_values_are_read_into_their_classes(postgres: EmbeddedPostgres) -> None:
    [statement] = parse(
        "-- database: central\n-- name: couples\nSELECT 1 AS number, 'a' AS name, 2 AS place, right_number, "
        "NULL::text AS right_name FROM unnest(:numbers::int4[]) AS right_number"
    )
    connection = await asyncpg.connect(postgres.dsn("postgres"))
    try:
        rows = await statement.rows(connection, Couple, numbers=[3, None])
    finally:
        await connection.close()
    assert rows == [Couple(Pair(1, "a"), 2, Pair(3, None)), Couple(Pair(1, "a"), 2, None)]


class PairResponse(BaseModel):
    name: str | None
    number: Annotated[int, Field(ge=0)] = 0


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("columns", "difference"),
    [
        ("'a' AS name", None),
        ("1 AS number, 'a' AS name", None),
        ("1 AS number", "the columns are"),
        ("'a' AS name, 1 AS another", "the columns are"),
        ("'a' AS name, 'b' AS number", "number is text"),
    ],
)
async def test_a_model_that_differs_from_its_statement_would_be_noticed(
    postgres: EmbeddedPostgres, columns: str, difference: str | None
) -> None:
    connection = await asyncpg.connect(postgres.dsn("postgres"))
    try:
        found = mismatches((await connection.prepare(f"SELECT {columns}")).get_attributes(), PairResponse)
    finally:
        await connection.close()
    assert [text.startswith(difference or "") for text in found] == ([] if difference is None else [True])


async def test_rows_are_read_into_their_class(postgres: EmbeddedPostgres) -> None:
    [statement] = parse("-- database: central\n-- name: pairs\nSELECT :number::int4 AS number, NULL::text AS name")
    connection = await asyncpg.connect(postgres.dsn("postgres"))
    try:
        assert await statement.rows(connection, Pair, number=1) == [Pair(1, None)]
        assert await statement.row(connection, Pair, number=2) == Pair(2, None)
        assert await statement.rows(connection, PairResponse, number=1) == [PairResponse(name=None, number=1)]
        assert await statement.row(connection, PairResponse, number=2) == PairResponse(name=None, number=2)
    finally:
        await connection.close()


def test_code_uses_only_statements_that_exist_and_every_statement_is_used() -> None:
    existing = {(str(file), statement.name) for file in FILES for statement in parse(file.read_text("utf-8"))}
    used = {(file, name) for _, file, name in uses()}
    assert used - existing == set()
    assert existing - used == set()


@pytest.mark.parametrize("values", [{}, {"a": 1}, {"a": 1, "b": 2, "c": 3}, {"a": 1, "c": 2}])
async def test_wrong_parameters_are_refused_with_the_name_of_the_statement(
    postgres: EmbeddedPostgres, values: dict[str, object]
) -> None:
    [statement] = parse("-- database: central\n-- name: add\nSELECT :a::int + :b::int")
    connection = await asyncpg.connect(postgres.dsn("postgres"))
    try:
        assert await statement.value(connection, b=2, a=1) == 3
        assert await statement.column(connection, b=2, a=1) == [3]
        for call in (statement.rows, statement.row, statement.value, statement.column, statement.run):
            with pytest.raises(TypeError, match=r"add takes \('a', 'b'\), not"):
                await call(connection, **values)
    finally:
        await connection.close()


async def test_run_returns_how_many_rows_were_changed(postgres: EmbeddedPostgres) -> None:
    create, insert, delete = parse(
        "-- database: central\n-- name: create\nCREATE TEMPORARY TABLE numbers (number int)\n"
        "-- name: insert\nINSERT INTO numbers SELECT generate_series(1, :count::int)\n"
        "-- name: delete\nDELETE FROM numbers WHERE number > :above"
    )
    connection = await asyncpg.connect(postgres.dsn("postgres"))
    try:
        assert await create.run(connection) == 0
        assert await insert.run(connection, count=5) == 5
        assert await delete.run(connection, above=2) == 3
    finally:
        await connection.close()


def test_both_statements_that_close_a_dispatch_differ_only_if_its_history_line_exists() -> None:
    texts = {each.name: each.text for file in FILES for each in parse(file.read_text("utf-8"))}
    without_comments = {name: re.sub(r"^--.*\n", "", texts[name], flags=re.MULTILINE) for name in texts}
    assert without_comments["close_returned"].replace("ON CONFLICT DO NOTHING\n", "") == without_comments["close"]
