"""Files that only the agent's own user may read: the token, leases, reports."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import IO, Any

from callsheet.toolbox.errors import OperatorError
from callsheet.toolbox.private_folders import make_closed


def write_private(path: Path, value: dict[str, Any], *, survives_machine_crash: bool = True) -> None:
    """Replaces the whole file; after an error the old file stays. With `survives_machine_crash` this holds also if the
    machine crashes. Without it, the file survives only a crash of this process, and there is no fsync."""
    make_closed(path.parent)
    draft = path.with_suffix(".draft")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(value, file)
        file.flush()
        if survives_machine_crash:
            os.fsync(file.fileno())
    draft.replace(path)


def read_private(path: Path) -> dict[str, Any] | None:
    """Returns what was written, or None if the file is missing, unreadable or invalid."""
    try:
        value = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def claim(directory: Path) -> IO[str]:
    """Locks the directory for this process: two agents would send each other's reports. The caller keeps the returned
    file open, because closing it releases the lock."""
    make_closed(directory.parent)
    make_closed(directory)
    file = (directory / "agent.lock").open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise OperatorError(
            f"Another worker already uses {directory}. Set CALLSHEET_WORKER__ID to another id for this worker."
        ) from None
    return file
