"""`make audit`: looks for known vulnerabilities of the locked packages, with pip-audit and npm audit.

A vulnerability fails the audit. If no advisories are available (no network, or an index without them), it prints that
and passes: a check that fails on every machine without a network would be switched off, and a silent one would be
trusted.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LOCKS = (Path("locks/server.txt"), Path("locks/dev.txt"), Path("locks/node.txt"))
NPM_LOCKS = (Path("web/package-lock.json"), Path("web/browser/package-lock.json"))
NPM_COMMAND = ("npm", "audit", "--json", "--package-lock-only")
COMMAND = ("-m", "pip_audit", "--format", "json", "--progress-spinner", "off", "--disable-pip", "--require-hashes")
MAX_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Verdict:
    audited: int = 0
    vulnerable: Sequence[str] = ()
    # Packages without advisories, and the reason for the first one.
    unknown: Sequence[str] = ()
    reason: str = ""

    @property
    def lines(self) -> list[str]:
        lines = [f"Vulnerable: {each}" for each in self.vulnerable]
        if self.unknown and not self.audited:
            lines.append(f"No advisories can be had here, so nothing was audited. {self.reason}")
        elif self.unknown:
            lines.append(f"Not audited: {', '.join(self.unknown)}. {self.reason}")
        if self.audited and not self.vulnerable:
            lines.append(f"No known vulnerability in {self.audited} packages.")
        return lines


@dataclass(frozen=True, slots=True)
class Ran:
    """The output of pip-audit or npm."""

    out: str
    err: str = field(default="")


def judged(ran: Ran) -> Verdict:
    try:
        report: Mapping[str, Any] = json.loads(ran.out)
        packages = report["dependencies"]
    except (ValueError, KeyError, TypeError):
        lines = [line for line in ran.err.strip().splitlines() if line.strip()]
        return Verdict(unknown=("all",), reason=lines[-1] if lines else "pip-audit printed nothing.")
    skipped = [each for each in packages if "skip_reason" in each]
    return Verdict(
        audited=len(packages) - len(skipped),
        vulnerable=[
            f"{each['name']} {each['version']}: {flaw['id']}, fixed in {', '.join(flaw['fix_versions']) or 'none yet'}"
            for each in packages
            for flaw in each.get("vulns", [])
        ],
        unknown=[each["name"] for each in skipped],
        reason=skipped[0]["skip_reason"] if skipped else "",
    )


def judged_npm(ran: Ran) -> Verdict:
    try:
        report: Mapping[str, Any] = json.loads(ran.out)
    except ValueError:
        report = {}
    found = report.get("vulnerabilities")
    if not isinstance(found, dict):
        # The error of the registry, or npm's own error.
        lines = [line for line in ran.err.strip().splitlines() if line.strip()]
        reason = report.get("message") or (lines[0] if lines else "npm printed nothing.")
        return Verdict(unknown=("all",), reason=str(reason))
    return Verdict(
        audited=report["metadata"]["dependencies"]["total"],
        vulnerable=[
            f"{name} {flaw['range']}: {about['title']} ({about['url']})"
            for name, flaw in found.items()
            # A text is the name of another package in the list, which has the vulnerability.
            for about in flaw["via"]
            if isinstance(about, dict)
        ],
    )


def run_npm(lock: Path) -> Ran:
    """Runs npm with the Node of this environment, as all other npm commands."""
    root = Path(__file__).parents[1]
    return _run(["sh", str(root / "tools/run-node"), sys.prefix, *NPM_COMMAND], "npm", lock.parent)


def run(lock: Path) -> Ran:
    return _run([sys.executable, *COMMAND, "--requirement", str(lock)], "pip-audit")


def _run(command: Sequence[str], name: str, directory: Path | None = None) -> Ran:
    options: dict[str, Any] = {"capture_output": True, "text": True, "timeout": MAX_SECONDS, "cwd": directory}
    try:
        done = subprocess.run(command, check=False, **options)  # noqa: S603
    except subprocess.TimeoutExpired:
        return Ran("", f"{name} took longer than {MAX_SECONDS} seconds.")
    return Ran(done.stdout, done.stderr)


def main() -> int:
    verdicts = [(lock, judged(run(lock))) for lock in LOCKS]
    verdicts += [(lock, judged_npm(run_npm(lock))) for lock in NPM_LOCKS]
    for lock, verdict in verdicts:
        for line in verdict.lines:
            sys.stdout.write(f"{lock}: {line}\n")
    return 1 if any(verdict.vulnerable for _, verdict in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
