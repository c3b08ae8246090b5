"""The unfinished jobs of runs that this process knows. The end of one of them wakes the collector."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from uuid import UUID


class OpenJobs:
    """The scheduler adds each job that it starts. The collector reads the open jobs of all runs from the database and
    replaces the set. A job that is added during that read may be missing in its result, so it is kept."""

    def __init__(self) -> None:
        # The ids are texts, because every notification of any job is compared with them.
        self._ids: set[str] = set()
        self._added_since_read: set[str] = set()

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._ids

    def __iter__(self) -> Iterator[UUID]:
        return map(UUID, self._ids)

    def add(self, job_id: UUID) -> None:
        self._ids.add(str(job_id))
        self._added_since_read.add(str(job_id))

    def start_read(self) -> None:
        self._added_since_read.clear()

    def finish_read(self, found: Iterable[UUID]) -> None:
        self._ids = self._added_since_read.union(map(str, found))
