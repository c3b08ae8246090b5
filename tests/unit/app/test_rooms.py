"""One class opens the rooms, for the control plane and for commands, and passes each part that a room needs."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.support.run.source_files import source_files

ROOT = "app/rooms.py"
# It serves files and has no parts.
WEB = "web/room.py"
# A room may open what is inside it.
INSIDE = {
    ("identity/room.py", "open_links"),
    ("pipelines/room.py", "open_guidance"),
}


def test_only_one_module_opens_rooms() -> None:
    openers = {function.name for path, function in _opening_functions() if path != WEB}
    assert {"open_accounts", "open_jobs", "open_pipelines", "open_alerts"} <= openers
    found = {
        (name, call.func.id)
        for name, path in source_files().items()
        if name != ROOT
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in openers
    }
    assert found <= INSIDE, "use the rooms of callsheet.app.rooms: a second place can build other parts"


def test_a_function_that_opens_a_room_has_no_defaults() -> None:
    """A default builds a private copy of a part, or switches off a guard where it is forgotten."""
    found = [
        (path, function.name)
        for path, function in _opening_functions()
        if path != WEB and (function.args.defaults or any(function.args.kw_defaults))
    ]
    assert not found


def test_a_command_imports_only_the_rooms_that_it_uses() -> None:
    code = "import sys, callsheet.app.rooms; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout.split()
    assert "callsheet.app.rooms" in loaded
    assert not {"asyncpg", "fastapi", "starlette", "prometheus_client", "callsheet.identity"} & set(loaded)


def _opening_functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    for name, path in source_files().items():
        if Path(name).name in ("room.py", "worker_protocol.py", "worker_api.py"):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.FunctionDef) and node.name.startswith("open_"):
                    yield name, node
