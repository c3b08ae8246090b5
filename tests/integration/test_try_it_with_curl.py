"""Pages of docs/how-to are run as they stand, and must print what they say."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.commands import SECONDS, Callsheet, wait_until_nothing_runs_in
from tests.support.ports import free_port

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"
PAGES = ["try-it-with-curl.md", "run-tasks.md"]
ADDRESS = "http://127.0.0.1:8400"
END_OF_STEP = "-- the next step --"


@dataclass(frozen=True, slots=True)
class Step:
    commands: str
    # None where the page does not say what is printed.
    printed: str | None


def steps_of(page: str) -> list[Step]:
    found = re.findall(r"```sh\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", page, re.DOTALL)
    return [Step(commands, printed or None) for commands, printed in found]


@pytest.fixture
def address() -> str:
    return f"http://127.0.0.1:{free_port()}"


@pytest.fixture
def control_plane(tmp_path: Path, address: str) -> Iterator[None]:
    """The first terminal."""
    callsheet = Callsheet(tmp_path, SERVER__PORT=address.rpartition(":")[2], LOG__FORMAT="json")
    with callsheet.running("serve") as process:
        process.wait_for("control_plane.ready")
        yield
        ended = process.end(signal.SIGTERM)
        assert (ended.code, [line for line in ended.err.splitlines() if '"level": "error"' in line]) == (0, [])
    wait_until_nothing_runs_in(tmp_path)


def in_second_terminal(directory: Path, commands: list[str]) -> list[str]:
    """What each group of commands prints, all of them in one shell that stops at the first that fails."""
    script = "set -eu\n" + f"echo '{END_OF_STEP}'\n".join(commands)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CALLSHEET_", "PG"))}
    ended = subprocess.run(
        ["/bin/sh"],
        input=script,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
        cwd=directory,
        env={**kept, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout.split(f"{END_OF_STEP}\n")


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.usefixtures("control_plane")
def test_every_command_of_the_page_prints_what_the_page_says(tmp_path: Path, address: str, name: str) -> None:
    page = (HOW_TO / name).read_text()
    assert page.count(ADDRESS) == 1
    first_terminal, *steps = steps_of(page.replace(ADDRESS, address))
    assert "callsheet serve" in first_terminal.commands
    printed = in_second_terminal(tmp_path, [step.commands for step in steps])
    told = [(step.commands, step.printed) for step in steps if step.printed is not None]
    assert told == [
        (step.commands, text) for step, text in zip(steps, printed, strict=True) if step.printed is not None
    ]
    assert len(told) == page.count("```text")
