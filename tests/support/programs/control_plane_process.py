"""`callsheet serve` as a separate process on an installation of a test, which can be killed, frozen and started
again.

process = ControlPlaneProcess(settings, tmp_path)
await process.start()                                      # until it responds
process.send(signal.SIGSTOP)                               # frozen; SIGCONT lets it go on
await process.kill()
await process.start()                                      # the next one takes over
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from callsheet.settings import Settings
from tests.support.waiting import until


@dataclass
class ControlPlaneProcess:
    settings: Settings
    directory: Path
    # Beside those that make it use the same installation.
    more_variables: Mapping[str, str] = field(default_factory=dict)
    # What Python runs.
    program: Sequence[str] = ("-m", "callsheet", "serve")
    _process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Starts the process and waits until it responds."""
        await self.spawn()
        async with httpx.AsyncClient(base_url=self.settings.public_url, trust_env=False, timeout=5) as client:

            async def is_ready() -> bool:
                assert not self.is_over, (self.directory / "control-plane.log").read_text()
                with suppress(httpx.TransportError):
                    return (await client.get("/readyz")).status_code == 200
                return False

            await until(is_ready)

    async def spawn(self) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("CALLSHEET_", "PG"))}
        with (self.directory / "control-plane.log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                *self.program,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                env={**kept, **variables(self.settings), **self.more_variables},
            )

    def is_stopped(self) -> bool:
        """Whether a signal has frozen the process."""
        assert self._process is not None
        held = os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT)
        return held is not None

    @property
    def is_over(self) -> bool:
        return self._process is not None and self._process.returncode is not None

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    async def kill(self) -> None:
        assert self._process is not None
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()


def variables(settings: Settings) -> dict[str, str]:
    """The variables with which another process uses the same installation."""
    chosen = {
        "HOME": str(settings.home),
        "SERVER__PORT": str(settings.server.port),
        "STORAGE__BACKEND": settings.storage.backend,
        "MEDIA__PREVIEWS": str(settings.media.previews),
    }
    if settings.fleet.auto_approve is not None:
        chosen["FLEET__AUTO_APPROVE"] = str(settings.fleet.auto_approve)
    # Without one, the embedded database of the data directory.
    if settings.database.dsn is not None:
        chosen["DATABASE__DSN"] = settings.database.dsn.get_secret_value()
    if settings.fleet.secret is not None:
        chosen["FLEET__SECRET"] = settings.fleet.secret.get_secret_value()
    if settings.storage.backend == "s3":
        s3 = settings.storage.s3
        assert s3.access_key_id
        assert s3.secret_access_key
        chosen |= {
            "STORAGE__S3__BUCKET": s3.bucket or "",
            "STORAGE__S3__ENDPOINT_URL": s3.endpoint_url or "",
            "STORAGE__S3__ACCESS_KEY_ID": s3.access_key_id,
            "STORAGE__S3__SECRET_ACCESS_KEY": s3.secret_access_key.get_secret_value(),
        }
    return {f"CALLSHEET_{name}": value for name, value in chosen.items()}


@asynccontextmanager
async def control_plane_process(
    settings: Settings, directory: Path, **more_variables: str
) -> AsyncIterator[ControlPlaneProcess]:
    process = ControlPlaneProcess(settings, directory, more_variables)
    try:
        await process.start()
        yield process
    finally:
        await process.kill()
