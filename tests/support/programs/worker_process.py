"""`callsheet worker` as a separate process that a test can kill and start again on the same machine.

async with worker_process(settings, tmp_path, engine.url, ["face-swap"]) as worker:
    await worker.kill()
    await worker.start()                                   # the same worker id and directory
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from callsheet.fleet.registry.credentials import fleet_secret
from callsheet.plumbing.installation.secrets import master_secret
from callsheet.settings import Settings
from tests.support.run.left_over_programs import tied


@dataclass
class WorkerProcess:
    settings: Settings
    directory: Path
    engine_url: str
    workflows: Sequence[str]
    _process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        mine = ("CALLSHEET_", "AWS_", "COVERAGE")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(mine)}
        variables = {
            "API_BASE_URL": self.settings.public_url,
            "FLEET_SECRET": fleet_secret(self.settings.fleet, master_secret(self.settings)),
            "WORKER_ID": "gpu-1",
            "COMFYUI_BASE_URL": self.engine_url,
            "MAX_CONCURRENCY": "1",
            "HEARTBEAT_INTERVAL_SECONDS": "1",
            "CALLSHEET_WORKER__WORKFLOWS": ",".join(self.workflows),
            "CALLSHEET_WORKER__STOP_SECONDS": "0",
            "CALLSHEET_WORKER__METADATA_URL": "http://127.0.0.1:9",
        }
        with (self.directory / "worker.log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *tied(sys.executable, "-m", "callsheet", "worker"),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                env={**kept, **variables},
            )

    async def kill(self) -> None:
        assert self._process is not None
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()


@asynccontextmanager
async def worker_process(
    settings: Settings, directory: Path, engine_url: str, workflows: Sequence[str]
) -> AsyncIterator[WorkerProcess]:
    process = WorkerProcess(settings, directory, engine_url, workflows)
    await process.start()
    try:
        yield process
    finally:
        await process.kill()
