"""Facts of the system about a process: whether it is still the same, and how much memory it uses."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
PS_SECONDS = 5
# States of a process that has ended and that its parent has not waited for, or that is being removed.
ENDED = ("Z", "X")


def started_at(pid: int) -> str | None:
    """Start time of a process, in the system's format; None if there is no such process. Process ids are reused, but
    not with the same start time."""
    try:
        # The name in brackets may contain spaces and brackets.
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        return None if fields[0] in ENDED else f"{fields[19]} {_boot_id()}"
    except (OSError, IndexError):
        return None if PROC.joinpath("self").exists() else _start_time_from_ps(pid)


def is_group_alive(group: int) -> bool:
    """Whether a process of this process group still runs. A process that has ended does not count, even if its parent
    has not waited for it yet."""
    if not (PROC / "self").exists():
        return _accepts_signals(group)
    return any(_runs_in(stat, group) for stat in PROC.glob("[0-9]*/stat"))


def memory_bytes(pid: int) -> int | None:
    """Resident memory of a process and its children; None if the system does not report it."""
    found = [_resident(each) for each in (pid, *_children(pid))]
    return sum(each for each in found if each is not None) if found[0] is not None else None


def _resident(pid: int) -> int | None:
    try:
        return int((PROC / str(pid) / "statm").read_text().split()[1]) * PAGE_BYTES
    except (OSError, ValueError, IndexError):
        return None


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError, ValueError):
        for task in (PROC / str(pid) / "task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                found += [child, *_children(child)]
    return found


def _runs_in(stat: Path, group: int) -> bool:
    # The process may end while its file is read.
    with suppress(OSError, IndexError):
        state, _parent, its_group = stat.read_text().rpartition(")")[2].split()[:3]
        return int(its_group) == group and state not in ENDED
    return False


def _accepts_signals(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except PermissionError:
        return True
    except ProcessLookupError:
        return False
    return True


def _boot_id() -> str:
    with suppress(OSError):
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    return ""


def _start_time_from_ps(pid: int) -> str | None:
    with suppress(OSError, subprocess.SubprocessError):
        listed = subprocess.run(  # noqa: S603 (fixed words and a number)
            ["/bin/ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, timeout=PS_SECONDS, check=True
        )
        return listed.stdout.strip() or None
    return None
