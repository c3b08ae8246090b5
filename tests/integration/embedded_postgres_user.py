"""A process that uses the embedded server of a home until its standard input ends."""

import asyncio
import json
import os
import sys
from pathlib import Path

from callsheet.plumbing.embedded import EmbeddedPostgres


async def main(home: Path) -> None:
    server = await EmbeddedPostgres.start(home)
    sys.stdout.write(json.dumps({"port": server.port, "uid": os.getuid()}) + "\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    await server.close()


asyncio.run(main(Path(sys.argv[1])))
