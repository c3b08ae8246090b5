"""`make test-all`: every check and test, the minutes of each part, and what was left out. Arguments are for pytest."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import Any

PYTEST = ("-n", "3", "--dist", "loadfile", "--no-loadscope-reorder", "--hypothesis-profile", "thorough")
# What takes longer than all of this together, and how to run it.
LONGER = ("the long form of the chaos tests: make chaos", "benchmarks at their full length: make bench")


@dataclass(slots=True)
class Summary:
    lines: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=lambda: list(LONGER))
    has_failed: bool = False

    def run(self, name: str, command: list[str]) -> str:
        """Runs a part and shows its output while it runs. Returns the output."""
        started = time.monotonic()
        output = []
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        with subprocess.Popen(command, **pipes) as part:  # noqa: S603  only the commands below
            assert part.stdout is not None
            for line in part.stdout:
                sys.stdout.write(line)
                sys.stdout.flush()
                output.append(line)
        self.has_failed = self.has_failed or part.returncode != 0
        verdict = "passed" if part.returncode == 0 else "FAILED"
        self.lines.append(f"{name}: {verdict}, {(time.monotonic() - started) / 60:.1f} minutes")
        return "".join(output)


def main(arguments: list[str]) -> int:
    started = time.monotonic()
    summary = Summary()
    for target in ("lint", "types", "web-tests"):
        summary.run(target, ["make", "--no-print-directory", target])
    audited = summary.run("audit", [sys.executable, "-m", "tools.audit"])
    summary.left_out += [line for line in audited.splitlines() if "No advisories" in line or "Not audited" in line]
    summary.run("tests", [sys.executable, "-m", "pytest", *PYTEST, *arguments])
    lines = ["", *summary.lines, f"all: {(time.monotonic() - started) / 60:.1f} minutes"]
    sys.stdout.writelines(f"{line}\n" for line in [*lines, *(f"left out: {each}" for each in summary.left_out)])
    return 1 if summary.has_failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
