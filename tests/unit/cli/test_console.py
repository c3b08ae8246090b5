"""Where the output goes is the caller's choice, also when nothing can go there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

COMMAND = [sys.executable, "-m", "callsheet"]

# A command that leaves what it prints in the buffer.
HOLDING_BACK = "import sys; from callsheet.cli import main; main.app = lambda: sys.stdout.write('held'); main.main()"


def run(directory: Path, *command: str, **channels: IO[bytes] | int) -> subprocess.CompletedProcess[bytes]:
    # What is written waits in a buffer, as it does for nearly everybody.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    environment["CALLSHEET_HOME"] = str(directory)
    return subprocess.run(command, cwd=directory, env=environment, check=False, timeout=300, **channels)  # type: ignore[call-overload, no-any-return]


@pytest.mark.parametrize(
    "command",
    [
        (*COMMAND, "settings"),
        (*COMMAND, "settings", "--json"),
        (*COMMAND, "version"),
        (sys.executable, "-c", HOLDING_BACK),
    ],
    ids=["text", "json", "version", "held back"],
)
def test_output_that_cannot_be_written_is_one_sentence(tmp_path: Path, command: tuple[str, ...]) -> None:
    # A file that is open for reading takes no more than a full disk does.
    with open(os.devnull, "rb") as unwritable:
        ended = run(tmp_path, *command, stdout=unwritable, stderr=subprocess.PIPE)
        assert ended.returncode == 1
        sentence = "What was to be printed cannot be written: Bad file descriptor."
        problem = json.dumps({"code": "failed", "detail": sentence, "errors": []})
        assert ended.stderr.decode() == (f"{problem}\n" if "--json" in command else f"callsheet: {sentence}\n")
        assert run(tmp_path, *command, stdout=unwritable, stderr=unwritable).returncode == 1


def test_without_standard_output_or_standard_error_commands_work(tmp_path: Path) -> None:
    for closed in (">&-", "2>&-", ">&- 2>&-"):
        ended = subprocess.run(
            ["sh", "-c", f'"$@" {closed}', "sh", *COMMAND, "settings", "--json"],
            cwd=tmp_path,
            env={**os.environ, "CALLSHEET_HOME": str(tmp_path)},
            capture_output=True,
            check=False,
            timeout=300,
        )
        assert (ended.returncode, ended.stderr) == (0, b""), ended
