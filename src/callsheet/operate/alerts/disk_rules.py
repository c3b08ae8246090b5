"""Alerts about disks that fill up, before anything fails."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from callsheet.media.free_space import PlaceSpace
from callsheet.settings import DiskSettings
from callsheet.toolbox.disk_space import gibibytes
from callsheet.wire.operate.operations import Alert

NO_LIMITS = DiskSettings(reserve_bytes=0, warning_bytes=0)


class WorkerDisk(NamedTuple):
    """The disk of a live worker that has less free space than the reserve."""

    worker_id: str
    free_bytes: int
    size_bytes: int


def disk_alerts(disks: Iterable[PlaceSpace], limits: DiskSettings) -> Iterator[Alert]:
    """About the disks of a control plane: critical when they stop new work."""
    for disk in disks:
        if disk.free_bytes >= limits.warning_bytes:
            continue
        is_refusing = disk.is_needed and disk.free_bytes < limits.reserve_bytes
        free = f"{gibibytes(disk.free_bytes)} of {gibibytes(disk.size_bytes)} are free on the disk of {disk.path}."
        yield Alert(
            code="low_disk",
            severity="critical" if is_refusing else "warning",
            subject=disk.place,
            message=f"{free} {_effect(disk, limits, is_refusing=is_refusing)}",
            action="Make room or enlarge the disk: delete old files, set CALLSHEET_MEDIA__RETENTION_DAYS, or keep "
            "objects in S3. Look for other programs that write to this disk.",
        )


def _effect(disk: PlaceSpace, limits: DiskSettings, *, is_refusing: bool) -> str:
    if is_refusing:
        return "New uploads and new jobs are refused with 507. Accepted jobs go on while space is left."
    if disk.is_needed:
        return f"Below {gibibytes(limits.reserve_bytes)}, new uploads and new jobs are refused."
    return "A full disk stops whatever writes to the data directory."


def worker_disk_alerts(disks: Iterable[WorkerDisk]) -> Iterator[Alert]:
    for disk in disks:
        yield Alert(
            code="low_worker_disk",
            severity="warning",
            subject=disk.worker_id,
            message=f"The worker {disk.worker_id} has {gibibytes(disk.free_bytes)} of {gibibytes(disk.size_bytes)} "
            "left on its disk. Its jobs fail when the disk is full.",
            action="Delete old outputs of the engine on this machine, lower CALLSHEET_WORKER__CACHE_BYTES, or enlarge "
            f"the disk. Until then, callsheet workers drain {disk.worker_id} keeps jobs away from it.",
        )
