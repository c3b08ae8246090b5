"""A database dumped and restored with the programs of PostgreSQL, as operators do."""

from __future__ import annotations

import asyncio

from callsheet.plumbing.embedded.binaries import ENVIRONMENT, find_binaries


async def dump_and_restore(source: str, target: str) -> None:
    """`source` and `target` are DSNs; the target is empty."""
    dump = await _output("pg_dump", "--no-owner", source)
    await _output("psql", "--quiet", "--set=ON_ERROR_STOP=1", target, input=dump)


async def _output(program: str, *arguments: str, input: bytes = b"") -> bytes:
    process = await asyncio.create_subprocess_exec(
        find_binaries().directory / program,
        *arguments,
        env=ENVIRONMENT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate(input)
    assert process.returncode == 0, errors.decode()
    return output
