"""Every object gets what it needs in its constructor: no module sets attributes of objects of another room."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.run.source_files import source_files

# Modules that put rooms together. They assign no attribute at all: not even inside their own room.
COMPOSING = ("app/control_plane.py", "app/rooms.py", "room.py", "worker_protocol.py")
# What is allowed, with the reason.
ALLOWED: Mapping[tuple[str, str], str] = {
    (
        "callsheet_simulation/waiting_jobs.py",
        "queue.oldest",
    ): "The simulator does what the lease statement does: it finds the oldest job of a queue.",
    ("callsheet_demo/clip.py", "video.width"): "A stream of PyAV.",
    ("callsheet_demo/clip.py", "video.height"): "A stream of PyAV.",
    ("scaling/drivers/kubernetes.py", "workload.scale.spec.replicas"): "An object of the client of Kubernetes.",
}

# Attributes of classes: those that methods set, and the fields of dataclasses.
ATTRIBUTE = re.compile(r"^ +self\.(\w+)(?:: .*)? [-+|&]?= |^    (\w+): ", re.MULTILINE)
# Their keys are not attributes.
TYPED_DICT = re.compile(r"^class \w+\(TypedDict.*?(?=^\S)", re.MULTILINE | re.DOTALL)
# Parsing every module takes three seconds; few have such a line.
MAY_ASSIGN = re.compile(
    r"^ *(?!self\.\w+\b[^.,]| )[\w.()\[\], ]*[\w)\]]\.\w+[^=(!<>\n]*= |setattr\(|\bdel ", re.MULTILINE
)


class Assignment(NamedTuple):
    path: str
    line: int
    target: str
    attribute: str


def test_no_room_sets_attributes_of_objects_of_another_room() -> None:
    modules = {Path(name): path.read_text(encoding="utf-8") for name, path in source_files().items()}
    found = late_assignments(modules)
    late = [each for each in found if (each.path, each.target) not in ALLOWED]
    assert not late, f"pass these to the constructor: {late}"
    used = {(each.path, each.target) for each in found}
    assert set(ALLOWED) <= used, "allowed, but not needed any more"


def test_the_module_that_composes_everything_stays_short() -> None:
    assert len(source_files()["app/control_plane.py"].read_text(encoding="utf-8").splitlines()) < 180


@pytest.mark.parametrize(
    ("code", "targets"),
    [
        ("jobs.reaper.reaped = fleet.held.reaped", ["jobs.reaper.reaped"]),
        ("def build():\n    reaper = Reaper()\n    reaper.reaped = 1", ["reaper.reaped"]),
        ("reaper.reaped, other = 1, 2", ["reaper.reaped"]),
        ("reaper.reaped += 1", ["reaper.reaped"]),
        ("setattr(reaper, 'reaped', 1)", ["setattr(reaper, 'reaped', 1)"]),
        ("response.status_code = 201", []),
        ("class Own:\n    def __init__(self):\n        self.reaped = 1\n        self.other = 2", []),
        ("class Own:\n    def __init__(self):\n        self.reaped = 1\n\ndef change(own):\n    own.reaped = 2", []),
    ],
)
def test_the_check_finds_late_assignments(code: str, targets: list[str]) -> None:
    jobs = "class Reaper:\n    def __init__(self):\n        self.reaped = None\n"
    modules = {Path("jobs/reaper.py"): jobs, Path("fleet/leases.py"): code}
    assert [each.target for each in late_assignments(modules)] == targets


def test_the_check_finds_late_assignments_within_a_room() -> None:
    code = "class Own:\n    def __init__(self):\n        self.reaped = 1\n\ndef change(own):\n    own.reaped = 2"
    [found] = late_assignments({Path("jobs/room.py"): code})
    assert found.target == "own.reaped"


def late_assignments(modules: Mapping[Path, str]) -> list[Assignment]:
    """Attributes that a class of another room has, and none of the module's own room, are that room's to set."""
    attributes: dict[str, set[str]] = defaultdict(set)
    for path, text in modules.items():
        attributes[path.parts[0]].update(a or b for a, b in ATTRIBUTE.findall(TYPED_DICT.sub("", text)))
    found = []
    for path, text in modules.items():
        if not MAY_ASSIGN.search(text):
            continue
        elsewhere = set().union(*(names for room, names in attributes.items() if room != path.parts[0]))
        foreign = elsewhere - attributes[path.parts[0]]
        found += [
            each._replace(path=str(path))
            for each in _assignments(ast.parse(text))
            if path.name in COMPOSING or each.attribute in foreign
        ]
    return found


def _assignments(tree: ast.Module) -> Iterator[Assignment]:
    for node in ast.walk(tree):
        for target in _targets(node):
            own = isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self"
            if isinstance(target, ast.Attribute) and not own:
                yield Assignment("", target.lineno, ast.unparse(target), target.attr)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "setattr":
            name = node.args[1]
            yield Assignment("", node.lineno, ast.unparse(node), name.value if isinstance(name, ast.Constant) else "?")


def _targets(node: ast.AST) -> Iterator[ast.expr]:
    match node:
        case ast.Assign(targets=targets) | ast.Delete(targets=targets):
            for target in targets:
                yield from target.elts if isinstance(target, ast.Tuple | ast.List) else (target,)
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            yield target
