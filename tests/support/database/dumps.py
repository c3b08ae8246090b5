"""A database dumped and restored with the programs of PostgreSQL."""

from __future__ import annotations

import asyncio
from pathlib import Path

from callsheet.plumbing.embedded.binaries import ENVIRONMENT, find_binaries


async def dump_and_restore(source: str, target: str, file: Path) -> None:
    """`source` and `target` are DSNs; the target is empty."""
    await _run("pg_dump", "--format=custom", f"--file={file}", f"--dbname={source}")
    await _run("pg_restore", "--exit-on-error", f"--dbname={target}", str(file))


async def _run(program: str, *arguments: str) -> None:
    process = await asyncio.create_subprocess_exec(
        find_binaries().directory / program, *arguments, env=ENVIRONMENT, stderr=asyncio.subprocess.PIPE
    )
    _, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
