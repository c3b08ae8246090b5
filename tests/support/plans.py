"""What PostgreSQL does for a statement of ours: the plan our connections would use, and the blocks it touches."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from callsheet.plumbing.database import Database
from callsheet.plumbing.sql import Connection, Statement
from tests.support.holding import rolled_back


@dataclass(frozen=True, slots=True)
class Seen:
    """`indexes`: those that were read; `scanned`: tables that were read from one end to the other."""

    indexes: frozenset[str]
    scanned: frozenset[str]
    buffers: int
    rows_dropped: int
    rows: int


def literal(value: object) -> str:
    """As the argument of an EXECUTE, which takes no parameters: text that PostgreSQL casts to what is wanted."""
    match value:
        case None:
            return "NULL"
        case bool() | int() | float():
            return str(value)
        case list() if value and isinstance(value[0], dict):
            text = json.dumps(value)
        case list():
            text = "{" + ",".join("t" if item is True else "f" if item is False else str(item) for item in value) + "}"
        case _:
            text = str(value)
    return "'" + text.replace("'", "''") + "'"


async def prepare(connection: Connection, name: str, text: str, types: str = "") -> None:
    await connection.execute(f"PREPARE {name} {types} AS {text}")


async def explain(connection: Connection, name: str, arguments: list[object]) -> Seen:
    """Runs it as it is planned in this connection. Call it inside a transaction that is rolled back.

    With SERIALIZE, blocks of large values that are stored apart (TOAST) count too: without it nothing reads them.
    """
    call = f"{name} ({', '.join(map(literal, arguments))})" if arguments else name
    answer = await connection.fetchval(
        f"EXPLAIN (ANALYZE, BUFFERS, SERIALIZE TEXT, TIMING OFF, FORMAT JSON) EXECUTE {call}"
    )
    [explained] = answer if isinstance(answer, list) else json.loads(answer)
    plan = explained["Plan"]
    nodes = list(_nodes(plan))
    return Seen(
        indexes=frozenset(node["Index Name"] for node in nodes if "Index Name" in node),
        scanned=frozenset(node["Relation Name"] for node in nodes if node["Node Type"] == "Seq Scan"),
        buffers=sum(
            part["Shared Hit Blocks"] + part["Shared Read Blocks"] for part in (plan, explained["Serialization"])
        ),
        rows_dropped=sum(
            node.get(key, 0) * node["Actual Loops"]
            for node in nodes
            for key in ("Rows Removed by Filter", "Rows Removed by Index Recheck", "Rows Removed by Join Filter")
        ),
        rows=plan["Actual Rows"],
    )


async def explain_once(database: Database, statement: Statement, values: Mapping[str, object]) -> Seen:
    """In a connection that has not planned it before."""
    async with rolled_back(database) as connection:
        name = f"once_{statement.name}"
        await prepare(connection, name, statement.text)
        try:
            return await explain(connection, name, [values[parameter] for parameter in statement.parameters])
        finally:
            await connection.execute(f"DEALLOCATE {name}")


def _nodes(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)
