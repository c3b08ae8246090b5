"""Pages of the documentation whose commands are run exactly as printed, beside a running demo.

A block marked `sh` is run, and the block marked `text` after it is what it must print; `…` in it matches anything. A
block that starts with `make ` is the other terminal. One that cannot be run here has a comment before it: `<!-- not
run: the reason -->`.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from callsheet_demo.account import DEMO_EMAIL
from tests.support.programs.commands import Callsheet, wait_until_nothing_runs_in
from tests.support.run.ports import free_port

ROOT = Path(__file__).parents[3]
ADDRESS = "http://127.0.0.1:8400"
# Enough to run every page twice on a busy machine.
SECONDS_FOR_ALL_PAGES = 3600
# What a clone has for programs in TypeScript.
FOR_NODE = ("clients", "tools")
END_OF_STEP = "-- the next step --"
_BLOCK = re.compile(r"(<!-- not run: [^>]+ -->\n)?```sh\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Step:
    commands: str
    # None if the page does not show the output.
    printed: str | None

    def is_printed_by(self, text: str) -> bool:
        if self.printed is None:
            return True
        return re.fullmatch(".*".join(map(re.escape, self.printed.split("…"))), text, re.DOTALL) is not None


def steps_of(page: Path) -> list[Step]:
    found = _BLOCK.findall(page.read_text("utf-8"))
    steps = [Step(commands, printed or None) for excuse, commands, printed in found if not excuse]
    return [step for step in steps if not step.commands.startswith("make ")]


@dataclass(frozen=True, slots=True)
class Clone:
    """A directory like a clone of the repository after `make demo`: `.venv`, `.callsheet`, and the demo's URL."""

    directory: Path
    url: str

    def follow(self, pages: Sequence[Path]) -> None:
        """Runs the pages one after the other in one shell that stops at the first command that fails."""
        steps = [step for page in pages for step in steps_of(page)]
        home = self.directory / "home"
        home.mkdir(exist_ok=True)
        script = f"echo '{END_OF_STEP}'\n".join(step.commands for step in steps).replace(ADDRESS, self.url)
        ended = subprocess.run(
            ["/bin/sh"],
            input=f"set -eu\n{script}",
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS_FOR_ALL_PAGES,
            cwd=self.directory,
            # An ordinary user's empty shell: nothing else that is exported here may help.
            env={"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"},
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        printed = ended.stdout.split(f"{END_OF_STEP}\n")
        wrong = [
            f"{step.commands}\nshould print\n{step.printed}\nand printed\n{text}"
            for step, text in zip(steps, printed, strict=True)
            if not step.is_printed_by(text.replace(self.url, ADDRESS))
        ]
        assert not wrong, "\n\n".join(wrong)
        # In a clone, git would show anything else as untracked.
        assert {path.name for path in self.directory.iterdir()} <= {".venv", ".callsheet", "tour", "home", *FOR_NODE}
        assert self._effects_that_no_worker_can_run() == []

    def _effects_that_no_worker_can_run(self) -> list[str]:
        """What a page leaves in the gallery of the demo must work for the next visitor."""
        callsheet = Callsheet(self.directory)
        key = callsheet.succeed("keys", "create", "--user", DEMO_EMAIL).out.strip()
        found = httpx.get(f"{self.url}/api/effects?limit=200", headers={"authorization": f"Bearer {key}"}).json()
        return [each["slug"] for each in found["items"] if each["wait"]["code"] not in ("ready", "queue")]


@contextmanager
def demo_running_in(directory: Path) -> Iterator[Clone]:
    """The first terminal: `make demo`, in a directory that has only what is installed and what Node needs."""
    (directory / ".venv").symlink_to(sys.prefix)
    for name in FOR_NODE:
        (directory / name).symlink_to(ROOT / name)
    port = free_port()
    with Callsheet(directory, MEDIA__PREVIEWS="false").running("demo", "--port", str(port)) as demo:
        demo.wait_for("Ctrl-C stops it")
        yield Clone(directory, f"http://127.0.0.1:{port}")
        ended = demo.end(signal.SIGINT)
    assert ended.code == 0, ended
    assert "Traceback" not in ended.err
    wait_until_nothing_runs_in(directory)
