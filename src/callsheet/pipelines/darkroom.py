"""Decoders of pictures, behind walls: a process of its own for each picture, with a limit on time and memory.

Workers and providers made the bytes. A JPEG of 100 kB can ask for hours (a scan of the whole picture every 75 bytes),
and a decoder that crashes takes its process with it.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress

from callsheet.pipelines import pictures
from callsheet.pipelines.pictures import REFUSED, NoPicture

SECONDS = 30.0
# Of what a small picture can have; the rest would not be one.
LARGEST_BYTES = 2 * 1024 * 1024
LONGEST_REASON = 200


async def developed(content: bytes, seconds: float = SECONDS) -> bytes:
    """A small picture of a large one, or NoPicture."""
    process = await asyncio.create_subprocess_exec(
        # The file itself, so that nothing else of Callsheet is loaded; no environment, which may hold secrets.
        *(sys.executable, "-I", "-B", pictures.__file__),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={},
    )
    try:
        async with asyncio.timeout(seconds):
            made, said = await process.communicate(content)
    except TimeoutError:
        raise NoPicture(f"reading it takes more than {seconds:g} seconds") from None
    finally:
        # Also where whoever waits is cancelled.
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    if process.returncode == REFUSED:
        raise NoPicture(said.decode("utf-8", "replace")[:LONGEST_REASON])
    if process.returncode != 0 or len(made) > LARGEST_BYTES:
        raise NoPicture(f"its decoder died ({process.returncode})")
    return made
