"""Driver for workers that a program of the operator starts and ends.

The program is named in the settings (`scaling.commands`), never in a fleet's options: a user who may manage fleets must
not be able to run programs on the control plane's machine. It is called without a shell, in one of three ways:

    PROGRAM list                    print the ids of the existing workers, one per line, including starting ones
    PROGRAM want NUMBER ON_DEMAND   make NUMBER workers exist, ON_DEMAND of them on-demand; end none
    PROGRAM end ID [ID…]            end exactly these, which are drained and hold no lease; ignore ids that are gone
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from callsheet.scaling.driver import Actual, DriverError, OptionError, ScaledFleet
from callsheet.scaling.drivers.options import checked_options
from callsheet.settings import ScalingSettings, environment_for_programs
from callsheet.toolbox.redaction.redaction import redact_text
from callsheet.wire.forms import is_worker_id
from callsheet.wire.plurals import counted

# The ids of a thousand workers are at most 200 kB.
MAX_OUTPUT_BYTES = 1_000_000
# Characters of the program's last output in the error that operators read.
MAX_SHOWN_LENGTH = 500


class CommandOptions(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    command: str = Field(description="Name of a command in the settings (scaling.commands).")


class CommandDriver:
    name = "command"
    about = "Runs a command of the settings (scaling.commands) that starts and ends the workers."

    def __init__(self, settings: ScalingSettings):
        self._commands = settings.commands
        self._seconds = settings.driver_seconds

    def options_schema(self) -> Mapping[str, Any]:
        schema = CommandOptions.model_json_schema()
        if self._commands:
            schema["properties"]["command"]["enum"] = sorted(self._commands)
        return schema

    def checked(self, options: Mapping[str, object]) -> Mapping[str, object]:
        command = checked_options(CommandOptions, options).command
        if command not in self._commands:
            known = ", ".join(sorted(self._commands)) or "none"
            raise OptionError(
                "command", f"There is no command {command!r} in the settings (scaling.commands). There is: {known}."
            )
        return {"command": command}

    async def actual(self, fleet: ScaledFleet) -> Actual:
        printed = await self._run(fleet, "list")
        ids = [line.strip() for line in printed.splitlines() if line.strip()]
        wrong = next((line for line in ids if not is_worker_id(line)), None)
        if wrong is not None:
            raise DriverError(
                f"The command {fleet.options['command']!r} printed {wrong[:100]!r} for list, which is not the id of a "
                "worker: print one id per line and nothing else."
            )
        return Actual(len(set(ids)), frozenset(ids))

    async def want(self, fleet: ScaledFleet, wanted: int, on_demand: int) -> None:
        await self._run(fleet, "want", str(wanted), str(on_demand))

    async def end(self, fleet: ScaledFleet, worker_ids: Sequence[str]) -> None:
        await self._run(fleet, "end", *worker_ids)

    async def close(self) -> None:
        """Does nothing: no process runs between two calls."""

    async def _run(self, fleet: ScaledFleet, *arguments: str) -> str:
        name = str(fleet.options.get("command"))
        command = self._commands.get(name)
        if command is None:
            raise DriverError(f"There is no command {name!r} in the settings of this control plane (scaling.commands).")
        variables = {
            "CALLSHEET_FLEET": fleet.slug,
            "CALLSHEET_STAGE": fleet.stage,
            "CALLSHEET_MAXIMUM": str(fleet.policy.maximum),
        }
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env={**environment_for_programs(), **variables},
                # Its own process group, so that after a timeout its child processes are killed too.
                start_new_session=True,
                limit=MAX_OUTPUT_BYTES,
            )
        except (OSError, ValueError) as error:
            raise DriverError(f"The command {name!r} cannot be run: {error}.") from None
        return await _finished(process, f"The command {name!r} with {arguments[0]}", self._seconds)


async def _finished(process: asyncio.subprocess.Process, what: str, seconds: float) -> str:
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        async with asyncio.timeout(seconds):
            output, errors = await asyncio.gather(_read(process.stdout), _read(process.stderr))
            code = await process.wait()
    except TimeoutError:
        raise DriverError(f"{what} did not finish within {counted(seconds, 'second')} and was ended.") from None
    finally:
        # This also happens if the waiting task is canceled.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    if code != 0:
        output_text = " ".join((errors.strip() or output.strip() or "It printed nothing.").split())
        raise DriverError(f"{what} ended with exit code {code}: {redact_text(output_text[-MAX_SHOWN_LENGTH:])}")
    return output


async def _read(stream: asyncio.StreamReader) -> str:
    """The end of the output; a program with endless output must not fill the memory."""
    kept = b""
    while piece := await stream.read(65_536):
        kept = (kept + piece)[-MAX_OUTPUT_BYTES:]
    return kept.decode("utf-8", "replace")
