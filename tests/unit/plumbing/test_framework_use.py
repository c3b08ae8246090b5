"""FastAPI and Starlette are used as their documentation shows. A new version may change everything else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import callsheet

SOURCE = Path(callsheet.__file__).parent

FRAMEWORKS = ("fastapi", "starlette")
DOCUMENTED = {
    "fastapi",
    "fastapi.exceptions",
    "fastapi.openapi.docs",
    "fastapi.responses",
    "fastapi.security",
    "starlette.exceptions",
    "starlette.requests",
    "starlette.responses",
    "starlette.routing",
    "starlette.staticfiles",
    "starlette.types",
}
# Classes that are made to be derived from.
BASES = {"Response", "StreamingResponse"}


def test_only_documented_parts_of_the_framework_are_used() -> None:
    found = [
        f"{path.relative_to(SOURCE)}: {problem}"
        for path in sorted(SOURCE.rglob("*.py"))
        for problem in problems(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("from fastapi.routing import APIRoute", ["fastapi.routing"]),
        ("import fastapi.dependencies.models", ["fastapi.dependencies.models"]),
        ("from starlette._utils import is_async_callable", ["starlette._utils"]),
        ("from starlette.routing import _DefaultLifespan", ["starlette.routing._DefaultLifespan"]),
        ("from fastapi import APIRouter\n\nclass Mine(APIRouter): ...", ["class Mine(APIRouter)"]),
        ("from starlette import routing\n\nclass Mine(routing.Route): ...", ["class Mine(routing.Route)"]),
        ("from starlette.responses import Response\n\nclass Mine(Response): ...", []),
        ("from fastapi import FastAPI\n\nclass Mine(Own): ...", []),
        ("from fastapi import FastAPI\n\napp = FastAPI()\napp.router.default = 1", ["app.router.default = 1"]),
        ("from fastapi import FastAPI\n\nown.field = 1", []),
        ("from fastapi import FastAPI\n\napp.openapi = make", ["app.openapi = make"]),
    ],
)
def test_the_check_finds_other_uses(code: str, found: list[str]) -> None:
    assert list(problems(code)) == found


def problems(text: str) -> Iterator[str]:
    if not any(name in text for name in FRAMEWORKS):
        return
    tree = ast.parse(text)
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                modules = {alias.name for alias in aliases if alias.name.partition(".")[0] in FRAMEWORKS}
                yield from sorted(modules - DOCUMENTED)
            case ast.ImportFrom(module=str(module), names=aliases) if module.partition(".")[0] in FRAMEWORKS:
                names |= {alias.asname or alias.name for alias in aliases}
                if module == "starlette":
                    continue
                if module not in DOCUMENTED:
                    yield module
                yield from (f"{module}.{alias.name}" for alias in aliases if alias.name.startswith("_"))
            case ast.ClassDef(name=name, bases=bases):
                for base in bases:
                    if _first(base) in names - BASES:
                        yield f"class {name}({ast.unparse(base)})"
            case ast.Assign(targets=[ast.Attribute(value=owner)]) if _first(owner) in ("app", "api", "router"):
                yield ast.unparse(node)


def _first(expression: ast.expr) -> str:
    """The name that an expression like `routing.Route` starts with."""
    while isinstance(expression, ast.Attribute):
        expression = expression.value
    return expression.id if isinstance(expression, ast.Name) else ""
