"""The texts of the web application, from its own source: a test repeats no sentence that could be rewritten there.

`app_text("fleets.fleet.create")` is the text `create` of the constant `fleetTexts` in `web/src/texts/fleets.ts`. If the
text is a function, its arguments follow the path.
"""

from __future__ import annotations

import atexit
import functools
import json
import subprocess
import sys

from tools.chromium import ROOT

COMMAND = ("sh", "../tools/run-node", sys.prefix, "node", "build/texts.mjs")


def app_text(path: str, *arguments: str | int | None) -> str:
    program = _program()
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.write(json.dumps({"path": path, "args": arguments}) + "\n")
    program.stdin.flush()
    found = json.loads(program.stdout.readline())
    assert isinstance(found, str), f"web/src/texts has no text {path}"
    return found


@functools.cache
def _program() -> subprocess.Popen[str]:
    """Node reads the texts once per test process."""
    program = subprocess.Popen(
        COMMAND, cwd=ROOT / "web", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    )
    atexit.register(program.communicate)
    return program
