"""SQL written as SQL: a file beside its code, one named block per statement, named parameters, loaded once.

    -- database: central
    -- name: find_user
    SELECT id FROM users WHERE email = :email

`statements("callsheet.identity")["find_user"].row(connection, FoundUser, email=…)`: with a class, a row is a
NamedTuple whose fields are the columns, in the same order. A field may be a NamedTuple that takes several columns (see
`Contained`). Where a response has exactly the columns of a row, its pydantic model is the class. A test prepares every
block of every room against the migrated schema, and compares its columns with the class, so a statement that PostgreSQL
would refuse does not land.

Text that several statements of a file share, like the filters of a list and of its totals, is written once:

    -- part: matches_filter
    (:status::text IS NULL OR job.status = :status)

`{matches_filter}` in a statement of the same file is replaced by this text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from functools import cache
from importlib import resources
from operator import attrgetter
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NamedTuple,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)
from uuid import UUID

import asyncpg
from pydantic import BaseModel

# This does the same as `_make` of a named tuple, in half the time: a test has compared the columns with the fields.
new_tuple = tuple.__new__


class Contained(NamedTuple):
    """A named tuple that is a field of a row. Its columns follow each other in the row."""

    field: str
    row_class: type[Any]
    # An optional value is None if its first column is NULL.
    is_optional: bool


@cache
def reader_of(row_class: type[Any]) -> Callable[[Any], Any]:
    """Reads a record into a named tuple, and the columns of contained values into their own classes."""
    pieces = list(_pieces(row_class))
    if not any(contained for _, contained in pieces):
        return lambda record: new_tuple(row_class, record)

    def read(record: Any) -> Any:
        values: list[Any] = []
        for columns, contained in pieces:
            if contained is None:
                values += record[columns]
            elif contained.is_optional and record[columns.start] is None:
                values.append(None)
            else:
                values.append(new_tuple(contained.row_class, record[columns]))
        return new_tuple(row_class, values)

    return read


def contained_in(row_class: type[Any]) -> Iterator[str | Contained]:
    """The fields of a row in their order: the name of a column, or a value with columns of its own."""
    hints = get_type_hints(row_class)
    for name in row_class._fields:
        members = _members(hints[name])
        found = [each for each in members if isinstance(each, type) and hasattr(each, "_fields")]
        yield Contained(name, found[0], type(None) in members) if found else name


def _pieces(row_class: type[Any]) -> Iterator[tuple[slice, Contained | None]]:
    """The row in slices: columns that are fields, or the columns of one contained value."""
    start = stop = 0
    for each in contained_in(row_class):
        if isinstance(each, str):
            stop += 1
            continue
        if start < stop:
            yield slice(start, stop), None
        start, stop = stop, stop + len(each.row_class._fields)
        yield slice(start, stop), each
        start = stop
    if start < stop:
        yield slice(start, stop), None


class AsJson:
    """Makes the JSON object that `jsonb_to_recordset` reads from a named tuple or a dataclass.

    The class's annotations are read once. Missing values are left out, because each would cost time to write and to
    parse. Not `dataclasses.asdict`: its deep copies cost as much as all other Python code for a job.
    """

    def __init__(self, value_class: type[Any], without: frozenset[str] = frozenset()):
        hints = get_type_hints(value_class)
        self._names = tuple(name for name in names_of(value_class) if name not in without)
        self._values = attrgetter(*self._names)
        self._texts = [name for name in self._names if UUID in _members(hints[name])]
        self._times = [name for name in self._names if datetime in _members(hints[name])]

    def __call__(self, value: object) -> dict[str, Any]:
        entry = {name: each for name, each in zip(self._names, self._values(value), strict=True) if each is not None}
        for name in self._texts:
            if name in entry:
                entry[name] = str(entry[name])
        for name in self._times:
            if name in entry:
                entry[name] = entry[name].isoformat()
        return entry


def names_of(value_class: type[Any]) -> tuple[str, ...]:
    """The names of the fields of a named tuple or a dataclass."""
    if is_dataclass(value_class):
        return tuple(each.name for each in fields(value_class))
    names: tuple[str, ...] = value_class._fields
    return names


def copied(names: tuple[str, ...], source: object) -> Mapping[str, Any]:
    """These attributes of a value, by name."""
    return {name: getattr(source, name) for name in names}


def _members(hint: object) -> tuple[object, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


DatabaseKind = Literal["central", "pool"]
if TYPE_CHECKING:  # generic for the type checker only
    Connection: TypeAlias = asyncpg.Connection[asyncpg.Record] | asyncpg.pool.PoolConnectionProxy[asyncpg.Record]
else:
    Connection = asyncpg.Connection

# A row without a class of its own, or a dictionary made of it.
Row: TypeAlias = asyncpg.Record | Mapping[str, Any]

_BLOCK = re.compile(r"^--\s*(name|part):\s*(\w+)\s*$", re.MULTILINE)
_DATABASE = re.compile(r"^--\s*database:\s*(central|pool)\s*$", re.MULTILINE)
# Quoted text and comments are skipped, so that a colon in them is not a parameter; `::` is a cast.
_TOKEN = re.compile(
    r"""'(?:[^']|'')*' | "[^"]*" | \$(?P<tag>\w*)\$.*?\$(?P=tag)\$ | --[^\n]* | /\*.*?\*/ | ::
    | :(?P<parameter>[a-z_][a-z0-9_]*)""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_END = re.compile(_TOKEN.pattern + "| (?P<end>;)", _TOKEN.flags)
_PART = re.compile(_TOKEN.pattern + r"| \{(?P<part>\w+)\}", _TOKEN.flags)
_COMMENT = re.compile(r"--[^\n]*")


# A NamedTuple, for which the type checker has no name, or the model of a response.
RowClass = TypeVar("RowClass", bound=tuple[Any, ...] | BaseModel)


@dataclass(frozen=True, slots=True)
class Statement:
    name: str
    database: DatabaseKind
    text: str
    parameters: tuple[str, ...]

    @overload
    async def rows(self, connection: Connection, into: type[RowClass], /, **values: object) -> list[RowClass]: ...

    @overload
    async def rows(self, connection: Connection, /, **values: object) -> list[asyncpg.Record]: ...

    async def rows(self, connection: Connection, into: Any = None, /, **values: object) -> list[Any]:
        records = await connection.fetch(self.text, *self._arguments(values))
        if into is None:
            return records
        if issubclass(into, tuple):
            return list(map(reader_of(into), records))
        return [into(**record) for record in records]

    @overload
    async def row(self, connection: Connection, into: type[RowClass], /, **values: object) -> RowClass | None: ...

    @overload
    async def row(self, connection: Connection, /, **values: object) -> asyncpg.Record | None: ...

    async def row(self, connection: Connection, into: Any = None, /, **values: object) -> Any:
        record = await connection.fetchrow(self.text, *self._arguments(values))
        if into is None or record is None:
            return record
        return reader_of(into)(record) if issubclass(into, tuple) else into(**record)

    async def value(self, connection: Connection, /, **values: object) -> Any:
        return await connection.fetchval(self.text, *self._arguments(values))

    async def column(self, connection: Connection, /, **values: object) -> list[Any]:
        """The first column of all rows."""
        return [record[0] for record in await connection.fetch(self.text, *self._arguments(values))]

    async def run(self, connection: Connection, /, **values: object) -> int:
        """Runs the statement and returns the number of changed rows."""
        status = await connection.execute(self.text, *self._arguments(values))
        count = status.rpartition(" ")[2]
        return int(count) if count.isdigit() else 0

    def _arguments(self, values: Mapping[str, object]) -> list[object]:
        if len(values) == len(self.parameters):
            try:
                return [values[name] for name in self.parameters]
            except KeyError:
                pass
        raise TypeError(f"{self.name} takes {self.parameters}, not {tuple(values)}")


@cache
def statements(package: str, file: str = "statements.sql") -> Mapping[str, Statement]:
    """The statements of a file, by name. Several modules of a package use the same file."""
    text = resources.files(package).joinpath(file).read_text("utf-8")
    found: dict[str, Statement] = {}
    for statement in parse(text, where=f"{package}/{file}"):
        if statement.name in found:
            raise ValueError(f"{package}/{file} names {statement.name} twice")
        found[statement.name] = statement
    return found


def parse(text: str, where: str = "") -> Iterator[Statement]:
    databases = _DATABASE.findall(text)
    if len(databases) != 1:
        raise ValueError(f"{where} must say once '-- database: central' or '-- database: pool'")
    kind: DatabaseKind = "central" if databases[0] == "central" else "pool"
    before, *blocks = _BLOCK.split(text)
    if not _is_blank(before):
        raise ValueError(f"{where} has SQL before its first '-- name:'")
    bodies: dict[str, list[tuple[str, str]]] = {"name": [], "part": []}
    for block, name, body in zip(blocks[::3], blocks[1::3], blocks[2::3], strict=True):
        if _is_blank(body):
            raise ValueError(f"{where} has nothing below '-- {block}: {name}'")
        bodies[block].append((name, body.strip().rstrip(";")))
    parts = {name: _COMMENT.sub("", body).strip() for name, body in bodies["part"]}
    used: set[str] = set()
    for name, body in bodies["name"]:
        sql, parameters = positional(_with_parts(body, parts, used, where))
        yield Statement(name, kind, sql, parameters)
    if len(used) < len(bodies["part"]):
        raise ValueError(f"{where} has a part that is not used, or that is named twice")


def _with_parts(sql: str, parts: Mapping[str, str], used: set[str], where: str) -> str:
    def replace(match: re.Match[str]) -> str:
        name = match["part"]
        if name is None:
            return match[0]
        if name not in parts:
            raise ValueError(f"{where} uses {{{name}}}, but has no '-- part: {name}'")
        used.add(name)
        return parts[name]

    return _PART.sub(replace, sql)


def _is_blank(sql: str) -> bool:
    return not _COMMENT.sub("", sql).strip()


def commands(text: str) -> list[str]:
    """The commands of a script. A semicolon in quotes, in a comment or in the body of a function does not end a
    command.
    """
    ends = [match.start() for match in _END.finditer(text) if match["end"]]
    parts = [text[start:end] for start, end in zip([0, *(end + 1 for end in ends)], [*ends, len(text)], strict=True)]
    return [part.strip() for part in parts if not _is_blank(part)]


def positional(text: str) -> tuple[str, tuple[str, ...]]:
    """Replaces `:name` by `$1` and returns the names in order. A repeated name keeps its number."""
    order: dict[str, int] = {}

    def replace(match: re.Match[str]) -> str:
        name = match["parameter"]
        return match[0] if name is None else f"${order.setdefault(name, len(order) + 1)}"

    return _TOKEN.sub(replace, text), tuple(order)
