"""Where the output goes is the caller's choice, also when nothing can go there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

COMMAND = [sys.executable, "-m", "callsheet"]


def run(directory: Path, *arguments: str, **channels: IO[bytes] | int) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "CALLSHEET_HOME": str(directory)}
    return subprocess.run([*COMMAND, *arguments], cwd=directory, env=environment, check=False, timeout=300, **channels)  # type: ignore[call-overload, no-any-return]


@pytest.mark.parametrize("arguments", [("settings",), ("settings", "--json"), ("version",)])
def test_output_that_cannot_be_written_is_one_sentence(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    # A file that is open for reading takes no more than a full disk does.
    with open(os.devnull, "rb") as unwritable:
        ended = run(tmp_path, *arguments, stdout=unwritable, stderr=subprocess.PIPE)
        assert ended.returncode == 1
        assert ended.stderr == b"callsheet: What was to be printed cannot be written: Bad file descriptor.\n"
        assert run(tmp_path, *arguments, stdout=unwritable, stderr=unwritable).returncode == 1


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
