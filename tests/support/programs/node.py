"""Programs in TypeScript, run by the Node that `make` has installed."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
CLIENT = ROOT / "clients" / "typescript"


def node_command(*arguments: str | Path) -> tuple[str, ...]:
    return ("sh", str(ROOT / "tools" / "run-node"), sys.prefix, "node", *map(str, arguments))


async def run_node(*arguments: str | Path, cwd: Path = CLIENT, **variables: str) -> str:
    """What the program prints. Fails with it if the program fails."""
    process = await asyncio.create_subprocess_exec(
        *node_command(*arguments),
        cwd=cwd,
        env={"PATH": os.environ["PATH"], "HOME": str(cwd), **variables},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    text = output.decode()
    assert process.returncode == 0, text
    return text


def install_client(directory: Path) -> None:
    """Makes `import "callsheet"` work in programs of this directory, as `npm install` does with a folder."""
    packages = directory / "node_modules"
    packages.mkdir()
    (packages / "callsheet").symlink_to(CLIENT)
