"""Settings of the free space of disks."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from callsheet.toolbox.disk_space import GIBIBYTE
from callsheet.toolbox.sections import Section


class DiskSettings(Section):
    reserve_bytes: int = Field(
        GIBIBYTE,
        ge=0,
        le=2**60,
        description="Free space that new uploads and new jobs do not use, in bytes. Below it, they are refused with "
        "507, so that jobs that were accepted can still finish. It applies to the disks of local storage and of the "
        "embedded database.",
    )
    warning_bytes: int = Field(
        5 * GIBIBYTE,
        ge=0,
        le=2**60,
        description="Free space below which operators are warned, in bytes: by `callsheet doctor` and the alert "
        "`low_disk`. For the disks of workers, the limit of the alert is disk.reserve_bytes.",
    )

    @model_validator(mode="after")
    def _the_warning_comes_first(self) -> Self:
        if self.warning_bytes < self.reserve_bytes:
            raise ValueError("warning_bytes must not be smaller than reserve_bytes: the warning must come first")
        return self
