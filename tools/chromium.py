"""The Chromium that tests and benchmarks drive: this machine's own, or the one that was installed for the tests."""

from __future__ import annotations

import subprocess
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
    command = ["/bin/sh", str(ROOT / "tools/find-chromium")]
    found = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    return found.stdout.strip() if found.returncode == 0 else str(ROOT / "web/browser/chromium")
