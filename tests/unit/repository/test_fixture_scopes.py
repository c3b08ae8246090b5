"""A fixture name has one scope in all tests: a reader knows from the name how long its value lives."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[2]


def fixtures_of(source: str) -> Iterator[tuple[str, str]]:
    """The name and the scope of each fixture in a module."""
    if "fixture" not in source:
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for decorator in node.decorator_list:
                called = decorator.func if isinstance(decorator, ast.Call) else decorator
                if ast.unparse(called) in ("pytest.fixture", "pytest_asyncio.fixture"):
                    yield node.name, _scope(decorator)


def _scope(decorator: ast.expr) -> str:
    keywords = decorator.keywords if isinstance(decorator, ast.Call) else []
    return next((ast.literal_eval(each.value) for each in keywords if each.arg == "scope"), "function")


def test_scopes_are_read_from_every_form_of_the_decorator() -> None:
    source = (
        "@pytest.fixture\ndef a(): ...\n"
        "@pytest.fixture(autouse=True)\ndef b(): ...\n"
        "@pytest.fixture(scope='module')\ndef c(): ...\n"
        "@pytest_asyncio.fixture(scope='session')\nasync def d(): ...\n"
        "@pytest.mark.thorough\ndef e(): ...\n"
    )
    assert list(fixtures_of(source)) == [("a", "function"), ("b", "function"), ("c", "module"), ("d", "session")]


def test_each_fixture_name_has_one_scope() -> None:
    scopes: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for file in sorted(TESTS.rglob("*.py")):
        for name, scope in fixtures_of(file.read_text(encoding="utf-8")):
            scopes[name][scope].append(str(file.relative_to(TESTS)))
    assert len(scopes) > 200
    assert {name: dict(found) for name, found in scopes.items() if len(found) > 1} == {}
