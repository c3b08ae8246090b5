"""Where the output goes is the caller's choice, also when nothing can go there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

COMMANDS = {
    "text": ["settings"],
    "json": ["settings", "--json"],
    "version": ["version"],
    "held back": [],
}
# The command line is loaded once, which takes most of a second, and forked for each command: once where standard output
# cannot be written, and once where standard error cannot either.
FORKING = """
import json, os, sys
from callsheet.cli import main

# A file that is open for reading takes no more than a full disk does.
unwritable = os.open(os.devnull, os.O_RDONLY)

def end(arguments, stderr):
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.dup2(unwritable, 1)
    os.dup2(stderr, 2)
    sys.argv = ["callsheet", *arguments]
    if not arguments:
        # A command that leaves what it prints in the buffer.
        main.app = lambda: sys.stdout.write("held")
    main.main()
    sys.exit(0)

for name, arguments in json.loads(sys.argv[1]).items():
    with open(f"{name}.err", "wb") as written:
        code = end(arguments, written.fileno())
    silent = end(arguments, unwritable)
    with open(f"{name}.json", "w") as ended:
        json.dump([code, silent], ended)
"""


@dataclass(frozen=True, slots=True)
class Ended:
    code: int
    err: str
    # Where standard error could not be written either.
    silent_code: int


@pytest.fixture(scope="module")
def unwritten(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ended]:
    directory = tmp_path_factory.mktemp("console")
    # The output waits in a buffer, as it does for nearly every user.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    environment["CALLSHEET_HOME"] = str(directory)
    forking = [sys.executable, "-c", FORKING, json.dumps(COMMANDS)]
    subprocess.run(forking, cwd=directory, env=environment, check=True, timeout=300)
    ended = {}
    for name in COMMANDS:
        code, silent_code = json.loads((directory / f"{name}.json").read_text())
        ended[name] = Ended(code, (directory / f"{name}.err").read_text(), silent_code)
    return ended


@pytest.mark.few_forms
@pytest.mark.parametrize("name", COMMANDS)
def test_unwritable_output_is_reported_in_one_sentence(unwritten: dict[str, Ended], name: str) -> None:
    sentence = "The output cannot be written: Bad file descriptor."
    problem = json.dumps({"code": "failed", "detail": sentence, "errors": []})
    expected = f"{problem}\n" if name == "json" else f"callsheet: {sentence}\n"
    assert unwritten[name] == Ended(1, expected, 1)


@pytest.mark.thorough
@pytest.mark.parametrize("closed", [">&-", pytest.param("2>&-", marks=pytest.mark.thorough), ">&- 2>&-"])
def test_without_standard_output_or_standard_error_commands_work(tmp_path: Path, closed: str) -> None:
    ended = subprocess.run(
        ["sh", "-c", f'"$@" {closed}', "sh", sys.executable, "-m", "callsheet", "settings", "--json"],
        cwd=tmp_path,
        env={**os.environ, "CALLSHEET_HOME": str(tmp_path)},
        capture_output=True,
        check=False,
        timeout=300,
    )
    assert (ended.returncode, ended.stderr) == (0, b""), ended
