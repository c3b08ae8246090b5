"""A serving command returns the memory of large blocks to the system."""

from __future__ import annotations

import subprocess
import sys

# As a control plane whose four threads check passwords, each as the others do.
CHECKS = """
import asyncio, resource
from pathlib import Path
from callsheet.cli.installation import serve
from callsheet.identity.access.passwords import THREADS, Passwords

def resident_mb():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6

async def main():
    passwords = Passwords()
    before = resident_mb()
    for _ in range(5):
        await asyncio.gather(*(passwords.matches(None, "a password") for _ in range(2 * THREADS)))
    print(resident_mb() - before)

serve.run(main)
"""
# One block of a password check.
BLOCK_MB = 19_456 * 1024 / 1e6


def test_password_checks_leave_no_memory_behind() -> None:
    done = subprocess.run([sys.executable, "-c", CHECKS], capture_output=True, text=True, check=True)
    assert float(done.stdout) < BLOCK_MB
