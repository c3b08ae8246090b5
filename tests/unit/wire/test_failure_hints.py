"""Every error type that the code can give a job has a sentence for users, and a hint for operators on the page of the
job.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import get_args, get_type_hints

from callsheet.fleet.protocol.worker_errors import DEFAULT_TYPE
from callsheet.providers.comfy import cloud
from callsheet.providers.media import Prediction
from callsheet.wire.job_errors import SENTENCES

ROOT = Path(__file__).parents[3]
CODE = ROOT / "src" / "callsheet"
HINTS = ROOT / "web" / "src" / "texts" / "failure-hints.ts"
# Classes whose first argument is the error type, and classes that pass a fixed one to their base class.
TYPED = ("ProviderError", "EngineError", "NotStarted", "Failure", "job_error")
FIXED = ("ProviderUnavailable", "EngineUnreachable", "EngineStuck", "EngineLacks")

CLOUD_REFUSALS = {type for type, _ in cloud._REFUSALS.values()}
FAILED_PREDICTIONS = set(get_args(get_type_hints(Prediction)["status"])) - {"running", "succeeded"}
# Types that are not literals: where they are made, and which types they can be. Empty: they copy the type of an error.
COMPUTED: dict[tuple[str, str], set[str]] = {
    ("providers/comfy/cloud.py", "type"): CLOUD_REFUSALS,
    ("webhooks/result_collector.py", "f'provider_{prediction.status}'"): {f"provider_{s}" for s in FAILED_PREDICTIONS},
    ("worker/tasks/task_run.py", "error['type']"): set(),
    ("worker/agent/reports.py", "error.type"): set(),
    ("jobs/lease/outcomes.py", "self.type"): set(),
    ("wire/job_errors.py", "type"): set(),
    ("jobs/repair/reap.py", "type"): {"callback_expired", "lease_expired"},
    ("fleet/protocol/reports.py", "failure.type"): set(),
    (
        "fleet/protocol/worker_errors.py",
        "_type_of(error.type, engine.get('exception_type'), _within(engine, 'error', 'type'))",
    ): {DEFAULT_TYPE},
}


def test_every_error_type_of_a_job_has_a_hint() -> None:
    types = {type for _, type in found_types()}
    hints = set(re.findall(r"^  (\w+):\s+\"", HINTS.read_text(), re.MULTILINE))

    assert types - hints == set(), "write a hint for these types in web/src/texts/failure-hints.ts"
    assert hints - types == set(), "no code gives a job these types: remove their hints"


def test_every_error_type_of_a_job_has_a_sentence_for_users() -> None:
    assert set(SENTENCES) == {type for _, type in found_types()}


def test_the_search_finds_types_in_every_form_in_which_the_code_writes_them() -> None:
    found = set(found_types())

    assert ("jobs/repair/reap.py", "lease_expired") in found, "an argument of the function that makes an error"
    assert ("jobs/lease/leases.py", "attempts_exhausted") in found, "an argument"
    assert ("providers/comfy/errors.py", "out_of_memory") in found, "one of two values"
    assert ("providers/engine.py", "engine_stuck") in found, "a class with a fixed type"
    assert ("providers/errors.py", "provider_unavailable") in found, "a class with a constant"


def test_the_table_of_computed_types_names_only_places_that_exist() -> None:
    places = {(where, ast.unparse(given)) for where, given in type_expressions()}

    assert set(COMPUTED) <= places


def test_every_error_class_of_providers_is_known_to_the_search() -> None:
    known = {"Failure", *TYPED, *FIXED}
    for path, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and any(_name(base) in known for base in node.bases):
                assert node.name in known, f"{path} defines {node.name}: add it to TYPED or FIXED"


def found_types() -> Iterator[tuple[str, str]]:
    for where, given in type_expressions():
        for type in _literals(given) or COMPUTED.get((where, ast.unparse(given)), {f"unknown: {ast.unparse(given)}"}):
            yield where, type


@cache
def type_expressions() -> list[tuple[str, ast.expr]]:
    """The expression of the error type at each place of the code that makes an error of a job. Kept, because to parse
    the source takes a second.
    """
    return [(path, found) for path, tree in modules() for found in _type_expressions(tree)]


def _type_expressions(tree: ast.Module) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name(node.func) in TYPED:
            by_name = [each.value for each in node.keywords if each.arg == "type"]
            yield [*node.args, *by_name][0]
        elif isinstance(node, ast.Dict):
            fields = {key.value: value for key, value in zip(node.keys, node.values, strict=True) if _is_text(key)}
            if "type" in fields and "message" in fields:
                yield fields["type"]
        elif isinstance(node, ast.ClassDef) and node.name in FIXED:
            yield _fixed_type(node)


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(CODE.rglob("*.py")):
        name = path.relative_to(CODE).as_posix()
        yield name, ast.parse(path.read_text())


def _fixed_type(node: ast.ClassDef) -> ast.expr:
    constants = {each.targets[0].id: each.value for each in node.body if _is_constant(each)}
    [call] = [each for each in ast.walk(node) if isinstance(each, ast.Call) and _name(each.func) == "__init__"]
    given = call.args[0]
    return constants[given.attr] if isinstance(given, ast.Attribute) else given


def _is_constant(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)


def _literals(given: ast.expr) -> set[str]:
    if isinstance(given, ast.IfExp):
        return _literals(given.body) | _literals(given.orelse)
    return {given.value} if isinstance(given, ast.Constant) and isinstance(given.value, str) else set()


def _name(node: ast.expr) -> str | None:
    return getattr(node, "id", None) or getattr(node, "attr", None)


def _is_text(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
