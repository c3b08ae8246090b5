"""Alerts about a storage whose calls fail or are slow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from callsheet.media.storage.calls import CallFigures
from callsheet.wire.operate.operations import Alert
from callsheet.wire.plurals import counted

# One failure may be a coincidence, or one damaged object that one user reads.
FAILED_CALLS = 3
TIMED_CALLS = 10


def storage_alerts(figures: Iterable[CallFigures], place: str, slow_seconds: float) -> Iterator[Alert]:
    """Reads and writes are judged separately: a storage that refuses writes may still be readable."""
    for each in figures:
        done = "Reading from" if each.kind == "read" else "Writing to"
        if each.failed >= FAILED_CALLS:
            is_down = each.failed_in_a_row >= FAILED_CALLS or each.failed * 2 > each.calls
            yield Alert(
                code="storage_failing",
                severity="critical" if is_down else "warning",
                subject=each.kind,
                message=f"{done} the storage at {place} failed {counted(each.failed, 'time')} in "
                f"{counted(each.calls, 'call')} within five minutes. The last error: {each.last_error}",
                action="Do what the error says, then run callsheet doctor, which writes, reads and deletes an object.",
            )
        if each.timed >= TIMED_CALLS and each.slow * 2 > each.timed:
            yield Alert(
                code="slow_storage",
                severity="warning",
                subject=each.kind,
                message=f"{done} the storage at {place} took more than {slow_seconds:g} s in {each.slow} of "
                f"{counted(each.timed, 'call')} within five minutes.",
                action="Look at the load and the health of the disk, or of the S3 service and the network to it.",
            )
