"""Every crash at a failpoint, every interleaving and an example of each state machine run in `make test`."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from tools.test_all import LONGER, Summary

TESTS = Path(__file__).parents[2]
ALWAYS_RUN = sorted([*TESTS.glob("interleaving/test_*.py"), *TESTS.glob("integration/test_failpoints*.py")])
CRASH = "crashed_at("
WITH_CRASHES = sorted(
    path for path in TESTS.glob("*/test_*.py") if path.parent.name != "chaos" and CRASH in path.read_text("utf-8")
)
STATE_MACHINES = sorted(TESTS.glob("chaos/test_*_state_machine.py"))
LEFT_OUT = ("thorough", "few_forms")


def marks(code: list[ast.expr] | ast.expr) -> set[str]:
    """Names of the pytest marks in these expressions."""
    expressions = code if isinstance(code, list) else [code]
    return {node.attr for each in expressions for node in ast.walk(each) if isinstance(node, ast.Attribute)}


def marked_tests(path: Path) -> tuple[set[str], set[str]]:
    """All tests of the file, and those of which `make test` leaves out at least one form."""
    module = ast.parse(path.read_text("utf-8"))
    of_all: set[str] = set()
    tests: dict[str, set[str]] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.Assign) and any(getattr(each, "id", "") == "pytestmark" for each in node.targets):
            of_all |= marks(node.value)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            tests[node.name] = marks(node.decorator_list)
    return set(tests), {name for name, found in tests.items() if (found | of_all).intersection(LEFT_OUT)}


@pytest.mark.parametrize("path", ALWAYS_RUN, ids=lambda path: path.name)
def test_every_crash_and_interleaving_runs_in_make_test(path: Path) -> None:
    tests, left_out = marked_tests(path)
    assert tests
    assert not left_out


@pytest.mark.parametrize("path", STATE_MACHINES, ids=lambda path: path.name)
def test_an_example_of_each_state_machine_runs_in_make_test(path: Path) -> None:
    tests, left_out = marked_tests(path)
    assert tests - left_out


@pytest.mark.parametrize("path", [path for path in WITH_CRASHES if path != Path(__file__)], ids=lambda path: path.name)
def test_every_test_that_crashes_at_a_failpoint_runs_in_make_test(path: Path) -> None:
    text = path.read_text("utf-8")
    bodies = {
        node.name: ast.get_source_segment(text, node) or ""
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    _, left_out = marked_tests(path)
    assert not [name for name in left_out if CRASH in bodies.get(name, "")]


def test_there_are_files_to_check() -> None:
    assert len(ALWAYS_RUN) > 10
    assert len(WITH_CRASHES) > 10
    assert len(STATE_MACHINES) == 3


def test_make_test_all_fails_with_each_part_and_says_what_it_left_out(capfd: pytest.CaptureFixture[str]) -> None:
    summary = Summary()
    assert summary.run("one", [sys.executable, "-c", "print('its output')"]) == "its output\n"
    assert not summary.has_failed
    summary.run("two", [sys.executable, "-c", "raise SystemExit(3)"])
    summary.run("three", [sys.executable, "-c", ""])
    assert summary.has_failed
    assert [line.partition(",")[0] for line in summary.lines] == ["one: passed", "two: FAILED", "three: passed"]
    assert summary.left_out == list(LONGER)
    assert "its output" in capfd.readouterr().out
