"""The Chromium that tests and benchmarks drive: this machine's own, or the one that was installed for the tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
# No sandbox, because tests may run as root; and nothing that asks other hosts.
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def chromium_path() -> str:
    found = _run(["sh", str(ROOT / "tools/find-chromium")])
    if found.returncode == 0:
        return found.stdout.strip()
    installed = _run(["sh", str(ROOT / "tools/run-node"), sys.prefix, "node", "path.mjs"], ROOT / "web/browser")
    installed.check_returncode()
    return installed.stdout.strip()


def _run(command: list[str], directory: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)  # noqa: S603
