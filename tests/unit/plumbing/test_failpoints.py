"""Named gaps between two commits: each is used, each is crashed at by a test, and a misspelt one is refused."""

from __future__ import annotations

import ast
import asyncio
import contextvars
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import callsheet
from callsheet.plumbing.failpoints import Crashed, Failpoint, arm_for_process, armed, crash, hit, hit_in_thread
from callsheet.toolbox.errors import OperatorError

SOURCE = Path(callsheet.__file__).parent
TESTS = Path(__file__).parents[2]
SOME = Failpoint.MIGRATE_BETWEEN_DATABASES
OTHER = Failpoint.ADD_POOL_BEFORE_REGISTER
HITS = ("hit", "hit_in_thread")

END_AT = """
import asyncio, sys
from callsheet.plumbing.failpoints import Failpoint, arm_for_process, armed, crash, hit

async def main():
    arm_for_process(sys.argv[1])
    # What a test arms besides must not disarm what the settings armed.
    with armed({Failpoint.STORAGE_BEFORE_POINTER: crash}):
        for point in Failpoint:
            print(point.value, flush=True)
            await asyncio.create_task(hit(point))

asyncio.run(main())
"""


def members_named_in(file: Path, *, only_in_hit: bool) -> set[str]:
    """The X of every `Failpoint.X` in a file, or only of every `hit(Failpoint.X)` and `hit_in_thread(Failpoint.X)`."""
    text = file.read_text("utf-8")
    # Most files name none, and need no parsing.
    nodes = list(ast.walk(ast.parse(text))) if "Failpoint." in text else []
    if only_in_hit:
        calls = [node for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func) in HITS]
        nodes = [node for call in calls for argument in call.args for node in ast.walk(argument)]
    return {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Failpoint"
    }


def test_every_failpoint_is_used_by_the_product_and_by_a_test() -> None:
    every = {point.name for point in Failpoint}
    in_product = [members_named_in(file, only_in_hit=True) for file in SOURCE.rglob("*.py")]
    in_tests = [
        members_named_in(file, only_in_hit=False) for file in TESTS.rglob("test_*.py") if file != Path(__file__)
    ]
    assert set().union(*in_product) == every
    assert set().union(*in_tests) == every


def hits_in_transactions(node: ast.AST, *, in_transaction: bool = False) -> Iterator[str]:
    """Every `hit(…)` in a block that opens a transaction, or in a function that gets its caller's connection."""
    if isinstance(node, ast.AsyncWith):
        in_transaction |= any("transaction(" in ast.unparse(item.context_expr) for item in node.items)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        annotations = [each.annotation for each in (*node.args.args, *node.args.kwonlyargs) if each.annotation]
        in_transaction = any("Connection" in ast.unparse(each) for each in annotations)
    if in_transaction and isinstance(node, ast.Call) and ast.unparse(node.func) in HITS:
        yield ast.unparse(node)
    for child in ast.iter_child_nodes(node):
        yield from hits_in_transactions(child, in_transaction=in_transaction)


def test_no_failpoint_is_inside_a_transaction() -> None:
    """PostgreSQL undoes a transaction that ends early, so a failpoint in it would test PostgreSQL."""
    texts = [text for file in SOURCE.rglob("*.py") if "Failpoint." in (text := file.read_text("utf-8"))]
    assert [call for text in texts for call in hits_in_transactions(ast.parse(text))] == []


@pytest.mark.parametrize(
    "code",
    [
        "async with database.ordinary() as c, c.transaction():\n    await hit(Failpoint.A)",
        "async def write(connection: Connection):\n    await hit(Failpoint.A)",
    ],
    ids=["in a block", "in a function of a transaction"],
)
def test_a_failpoint_inside_a_transaction_would_be_found(code: str) -> None:
    assert list(hits_in_transactions(ast.parse(code))) == ["hit(Failpoint.A)"]


async def test_a_point_that_is_not_armed_does_nothing() -> None:
    with armed({OTHER: crash}):
        assert await hit(SOME) is None
    assert await hit(OTHER) is None


async def test_exception_handlers_do_not_catch_a_simulated_crash() -> None:
    with armed({SOME: crash}), pytest.raises(Crashed) as crashed:
        await hit(SOME)
    assert crashed.value.args == (SOME,)
    assert not isinstance(crashed.value, Exception)


async def test_a_point_in_a_thread_runs_what_the_task_armed() -> None:
    await asyncio.to_thread(hit_in_thread(SOME))
    with armed({SOME: crash}), pytest.raises(Crashed):
        await asyncio.to_thread(hit_in_thread(SOME))


async def test_arming_applies_to_the_tasks_of_the_block_only() -> None:
    outsider = contextvars.copy_context()
    hits: list[Failpoint] = []

    async def record(point: Failpoint) -> None:
        hits.append(point)

    with armed({SOME: record}), armed({OTHER: record}):
        await asyncio.gather(hit(SOME), hit(OTHER))
        await asyncio.create_task(hit(SOME), context=outsider)
    await hit(SOME)
    assert hits == [SOME, OTHER]


def test_a_failpoint_armed_by_settings_ends_the_process_without_cleanup() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", END_AT, f" {SOME}, {OTHER} "],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(SOURCE.parent)},
    )
    assert (ended.returncode, ended.stdout.split(), ended.stderr) == (137, [SOME.value], "")


def test_a_misspelt_failpoint_is_refused_with_those_that_exist() -> None:
    with pytest.raises(OperatorError) as refused:
        arm_for_process(f"{SOME}, migrate.betwen")
    assert "CALLSHEET_FAILPOINTS names unknown failpoints: migrate.betwen." in str(refused.value)
    assert all(point in str(refused.value) for point in Failpoint)
