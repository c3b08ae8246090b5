"""The figures of the source that `make lint` prints, counted in a small tree, and the modules on a request's path."""

from __future__ import annotations

import ast
import asyncio
import io
import sys
import threading
import tokenize
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from importlib import util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tools import traced_process
from tools.measure_house import SOURCE, Figure, figures, table
from tools.paid_path import CONTROL_PLANE, WORKER, path_figures, read_record, trace
from tools.source_figures import Function, SqlStatement, modules_of, read_module, statements_of, uses_of

PLAIN = '''
"""A module whose docstring
has an empty line:

and a # in it."""

import sys
from collections import (
    Counter,
    deque,
)

TEXT = """a string

# that is code"""


class Row:
    """A class."""

    column: str = "concurrency_identifier # not a comment"  # a comment

    def read(
        self,
    ) -> str:
        """A function."""

        def inner() -> str:
            return f"""
none{self.column}
"""
        # The end.

        return inner()


# The last comment.
async def last() -> None: ...
'''
STATEMENTS = """-- database: pool
-- owns: rows

-- part: has_id
id = :id
-- name: find
SELECT id, '-- not a comment' FROM rows
-- A comment, and an empty line.

WHERE {has_id} -- of the row
-- name: long
-- one statement because: its rows
-- must be of one moment.
SELECT 1,
"""
NOT_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    room = tmp_path / "house" / "room"
    room.mkdir(parents=True)
    (room / "__init__.py").touch()
    (room / "plain.py").write_text(PLAIN)
    (room / "statements.sql").write_text(STATEMENTS + "\n".join(f"    concurrency_identifier{n}," for n in range(70)))
    return tmp_path


def values(found: list[Figure]) -> dict[str, str]:
    return {figure.name: figure.value for figure in found}


def test_lines_are_code_unless_they_are_blank_or_a_comment_an_import_or_a_docstring(tree: Path) -> None:
    module = read_module(tree / "house/room/plain.py")
    assert (module.lines, module.code_lines) == (len(PLAIN.splitlines()), 14)
    assert module.functions == (Function("inner", 28, 4), Function("read", 23, 12), Function("last", 38, 1))


def test_the_counts_of_the_source_are_those_of_the_parser_of_python() -> None:
    modules = modules_of(SOURCE / "callsheet" / "jobs") + modules_of(SOURCE / "callsheet" / "wire")
    assert modules
    for module in modules:
        source = module.path.read_text()
        nodes = [*ast.walk(ast.parse(source))]
        left_out = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)] + [
            node.body[0]
            for node in nodes
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and ast.get_docstring(node) is not None
        ]
        tokens = tokenize.generate_tokens(io.StringIO(source).readline)
        code = {n for t in tokens if t.type not in NOT_CODE for n in range(t.start[0], t.end[0] + 1)}
        for node in left_out:
            code -= {*range(node.lineno, (node.end_lineno or 0) + 1)}
        assert module.code_lines == len(code), module.path
        assert set(module.functions) == {
            Function(node.name, node.lineno, (node.end_lineno or 0) - node.lineno + 1)
            for node in nodes
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }, module.path


def test_statements_are_listed_with_their_lines_and_reasons(tree: Path) -> None:
    path = tree / "house/room/statements.sql"
    assert statements_of(tree) == [
        SqlStatement(path, "long", 71, "its rows must be of one moment."),
        SqlStatement(path, "find", 2, ""),
        SqlStatement(path, "has_id", 1, ""),
    ]


def test_a_column_is_counted_by_its_whole_name(tree: Path) -> None:
    paths, plain = sorted((tree / "house").rglob("*.*")), tree / "house/room/plain.py"
    assert uses_of("concurrency_identifier", paths) == {plain: 1}
    assert uses_of("column", paths) == {plain: 2}


def test_the_table_has_each_figure_with_its_target(tree: Path) -> None:
    for number in range(21):
        (tree / "house" / f"module{number}.py").write_text("X = 1\n" * (10 if number else 500))
    (tree / "house" / "long.py").write_text("def long() -> None:\n" + "    long()\n" * 70)
    (tree / "callsheet" / "jobs").mkdir(parents=True)
    (tree / "callsheet" / "jobs" / "rows.sql").write_text("-- database: pool\n-- part: row\nconcurrency_identifier\n")
    found = figures(tree)
    assert values(found) == {
        "modules": "24",
        "lines": f"{len(PLAIN.splitlines()) + 500 + 20 * 10 + 71:,}",
        "code lines: no blank lines, comments, imports, docstrings": f"{14 + 500 + 20 * 10 + 71:,}",
        "folders with more than 20 modules": "1 (most: 22)",
        "modules under 30 lines": "20",
        "modules over 400 lines": "1",
        "functions over 70 lines": "1 (longest: 71)",
        "files with the job column concurrency_identifier": "1 of the job + 1 others",
        "files with the job column client_reference": "0 of the job + 0 others",
        "longest SQL statement": "71 lines (1 over 60)",
    }
    text = table(found, is_verbose=True)
    for detail in (
        "  22 house\n",
        " 500 house/module0.py\n",
        "house/long.py:1 long\n",
        "long (its rows must be of one",
        "   1 callsheet/jobs/rows.sql\n",
        "   1 house/room/plain.py\n",
    ):
        assert detail in text
    assert "house" not in table(found, is_verbose=False)


def test_the_modules_of_all_requests_are_counted_once() -> None:
    record = """submit callsheet/jobs/a.py find
submit callsheet/jobs/a.py Job.run
poll callsheet/jobs/a.py find
poll callsheet/wire/b.py view
worker callsheet/worker/c.py main"""
    figures = path_figures(read_record(record.replace(" ", "\t")))
    found = values(figures)
    assert found == {
        "modules of the control plane on the path of a paid job": "2 (3 functions)",
        "  in rooms": "1 (2 functions)",
        "  below the rooms: plumbing, toolbox, wire": "1 (1 function)",
        "  submit": "1 (2 functions)",
        "  poll": "2 (2 functions)",
        "  heartbeat": "0 (0 functions)",
        "  complete": "0 (0 functions)",
        "  stream": "0 (0 functions)",
        "modules of the worker on the path of a paid job": "1 (1 function)",
    }
    assert figures[0].details == ("callsheet/jobs/a.py: 2 functions", "callsheet/wire/b.py: 1 function")


@dataclass
class Traced:
    """Modules in a directory that count as the source, and what the recorder writes down about them."""

    folder: Path
    record: io.StringIO
    recorder: traced_process.Recorder

    def module(self, name: str, text: str = "def work() -> None: ...\n") -> ModuleType:
        path = self.folder / f"{name}.py"
        path.write_text(text)
        spec = util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        found = util.module_from_spec(spec)
        spec.loader.exec_module(found)
        return found

    def run(self, program: Coroutine[Any, Any, None]) -> list[str]:
        loop = asyncio.new_event_loop()
        loop.run_until_complete(program)
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
        return sorted(self.record.getvalue().splitlines())


@pytest.fixture
def traced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Traced]:
    record, before = io.StringIO(), sys.getprofile()
    monkeypatch.setattr(traced_process, "SOURCE", f"{tmp_path}/")
    traced = Traced(tmp_path, record, traced_process.Recorder(record))
    threading.setprofile(traced.recorder.on_call)
    sys.setprofile(traced.recorder.on_call)
    yield traced
    sys.setprofile(before)
    threading.setprofile(None)


def test_a_request_enters_the_modules_of_its_tasks_and_threads(traced: Traced) -> None:
    direct, task, thread, loop, other = map(traced.module, ("direct", "task", "thread", "loop", "other"))

    async def in_background(go_on: asyncio.Event) -> None:
        await go_on.wait()
        loop.work()

    async def in_task() -> None:
        task.work()
        await asyncio.to_thread(thread.work)

    async def program() -> None:
        go_on = asyncio.Event()
        background = asyncio.create_task(in_background(go_on))
        await asyncio.sleep(0)
        traced_process.request_name.set("submit")
        direct.work()
        go_on.set()
        await asyncio.gather(asyncio.create_task(in_task()), background)
        traced_process.request_name.set(None)
        other.work()

    assert traced.run(program()) == ["submit\tdirect.py\twork", "submit\ttask.py\twork", "submit\tthread.py\twork"]


def test_a_worker_enters_the_modules_of_its_polls_and_of_the_runs_that_they_start(traced: Traced) -> None:
    start, poll, job, health = map(traced.module, ("start", "poll", "job", "health"))

    async def work(module: ModuleType) -> None:
        module.work()

    async def poll_and_start_a_run() -> None:
        await asyncio.create_task(work(poll))
        await asyncio.create_task(work(job))

    async def program() -> None:
        start.work()
        # The first task since the first call of the source.
        traced.recorder.polling = (1,)
        await asyncio.gather(asyncio.create_task(poll_and_start_a_run()), asyncio.create_task(work(health)))

    assert traced.run(program()) == ["worker\tjob.py\twork", "worker\tpoll.py\twork"]


def test_what_runs_while_a_module_is_imported_is_not_counted(traced: Traced) -> None:
    async def program() -> None:
        traced_process.request_name.set("poll")
        imported = traced.module("imported", "def run() -> None: ...\nclass Row:\n    run()\n")
        assert traced.record.getvalue() == ""
        imported.run()

    assert traced.run(program()) == ["poll\timported.py\trun"]


@pytest.mark.thorough
async def test_each_request_of_a_paid_job_is_traced() -> None:
    entered = await trace()
    assert entered.keys() == {*CONTROL_PLANE, WORKER}
    # The reaper is a loop, and only its results are seen by requests.
    modules = {name: {module for module, _ in functions} for name, functions in entered.items()}
    assert not any("/reap" in module for found in modules.values() for module in found)
    for name in CONTROL_PLANE:
        assert any(module.startswith("callsheet/plumbing/") for module in modules[name])
        assert not any(module.startswith("callsheet/worker/") for module in modules[name])
    assert any(module.startswith("callsheet/worker/") for module in modules[WORKER])
