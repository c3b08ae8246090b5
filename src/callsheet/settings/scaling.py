"""Settings of the autoscaler. The database has the driver of each scaled fleet."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from callsheet.toolbox.sections import Section

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


def _are_commands(commands: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    for name, command in commands.items():
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} must be a name of lower-case letters, digits, dashes and underscores")
        if not command or not command[0] or any("\0" in part for part in command):
            raise ValueError(f"{name} must be a list of a program and its arguments")
    return commands


class ScalingSettings(Section):
    autoscaler: bool = Field(
        True,
        description="Whether this control plane may scale fleets. Only one control plane does so at a time.",
    )
    interval_seconds: float = Field(
        5.0, ge=1, le=60, description="How often the autoscaler checks the queue of every scaled fleet, in seconds."
    )
    driver_seconds: float = Field(60.0, ge=1, le=600, description="Timeout for one call of a driver, in seconds.")
    commands: Annotated[dict[str, tuple[str, ...]], AfterValidator(_are_commands)] = Field(
        {},
        description="Programs that fleets with the driver `command` may run, as JSON: a name, and a list of the "
        'program and its arguments, for example {"rent": ["/usr/local/bin/rent-gpus"]}. They are run without a shell.',
    )
    decisions_days: int = Field(90, ge=1, le=36_500, description="How long scaling decisions are kept, in days.")
