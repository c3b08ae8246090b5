"""What PostgreSQL does for a statement of ours: the plan our connections would use, and the blocks it touches.

async with rolled_back_transaction(database) as connection:
    text = "SELECT balance FROM token_wallets WHERE tenant_id = $1 AND owner_id = $2"      # or SQL["name"].text
    await prepare(connection, "find", text)
    seen = await explain(connection, "find", [uuid7(), uuid7()])
    assert (seen.indexes, seen.scanned) == ({"token_wallets_pkey"}, frozenset())
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.sql import Connection, Statement
from tests.support.database.connection_profiles import AS_ORDINARY, ordinary_texts
from tests.support.jobs.race_control import rolled_back_transaction

# On an ordinary connection the planner scans a table as long as that costs less than an index of it.
FEW_ROWS = 50_000
# After this many executions PostgreSQL decides whether a generic plan costs no more.
CUSTOM_PLANS = 5


@dataclass(frozen=True, slots=True)
class Seen:
    """`indexes`: those that were read; `scanned`: tables that were read from one end to the other. On an ordinary
    connection a table of FEW_ROWS does not count; the blocks that it may touch are bounded all the same."""

    indexes: frozenset[str]
    scanned: frozenset[str]
    buffers: int
    rows_dropped: int
    rows: int


def literal(value: object) -> str:
    """The value as an argument of EXECUTE, which has no parameters: a text that PostgreSQL casts to the type."""
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


async def explain(connection: Connection, name: str, arguments: list[object], *, may_scan: bool = True) -> Seen:
    """Runs it as it is planned in this hot connection, or as on an ordinary one if no other ever runs it. Call it
    inside a transaction that is rolled back.

    With SERIALIZE, blocks of large values that are stored apart (TOAST) count too: without it nothing reads them.
    """
    command = await connection.fetchval("SELECT statement FROM pg_prepared_statements WHERE name = $1", name)
    is_ordinary = command.partition(" AS ")[2] in ordinary_texts()
    given = f"({', '.join(map(literal, arguments))})" if arguments else ""
    if is_ordinary:
        await connection.execute(AS_ORDINARY)
        # Tables of a test that have no rows are scanned, whatever indexes they have.
        await connection.execute(f"SET LOCAL enable_seqscan = {'on' if may_scan else 'off'}")
        await connection.execute(command.replace(f"PREPARE {name}", f"PREPARE ordinary_{name}", 1))
        name = f"ordinary_{name}"
        for _ in range(CUSTOM_PLANS):
            await connection.execute(f"EXPLAIN EXECUTE {name} {given}")
    # Since PostgreSQL 17.
    serialize = "SERIALIZE TEXT, " if connection.get_server_version() >= (17,) else ""
    response = await connection.fetchval(
        f"EXPLAIN (ANALYZE, BUFFERS, {serialize}TIMING OFF, FORMAT JSON) EXECUTE {name} {given}"
    )
    if is_ordinary:
        await connection.execute(f"DEALLOCATE {name}")
    [explained] = response if isinstance(response, list) else json.loads(response)
    plan = explained["Plan"]
    nodes = list(_nodes(plan))
    return Seen(
        indexes=frozenset(node["Index Name"] for node in nodes if "Index Name" in node),
        scanned=frozenset(
            node["Relation Name"]
            for node in nodes
            if node["Node Type"] == "Seq Scan" and not (is_ordinary and _rows_read(node) <= FEW_ROWS)
        ),
        buffers=sum(
            part["Shared Hit Blocks"] + part["Shared Read Blocks"]
            for part in (plan, explained.get("Serialization"))
            if part is not None
        ),
        rows_dropped=sum(
            node.get(key, 0) * node["Actual Loops"]
            for node in nodes
            for key in ("Rows Removed by Filter", "Rows Removed by Index Recheck", "Rows Removed by Join Filter")
        ),
        rows=plan["Actual Rows"],
    )


async def explain_once(
    database: Database, statement: Statement, values: Mapping[str, object], *, may_scan: bool = True
) -> Seen:
    """Explains in a connection that has not planned the statement before."""
    async with rolled_back_transaction(database) as connection:
        name = f"once_{statement.name}"
        await prepare(connection, name, statement.text)
        try:
            arguments = [values[parameter] for parameter in statement.parameters]
            return await explain(connection, name, arguments, may_scan=may_scan)
        finally:
            await connection.execute(f"DEALLOCATE {name}")


def pairs(texts: Mapping[str, str], whens: Sequence[str]) -> list[tuple[str, str]]:
    """Each name with each state of the tables. Statements of ordinary connections only with the last one, when the
    tables are analyzed: their plans rest on statistics, and ANALYZE ends a kept one."""
    return [
        (name, when)
        for name, text in texts.items()
        for when in whens
        if when == whens[-1] or text not in ordinary_texts()
    ]


def _rows_read(node: Mapping[str, Any]) -> float:
    return float((node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"])


def _nodes(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)
