"""Results of ended jobs that could not be written because of an unexpected error. The delay before the next try
increases. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

FIRST_SECONDS = 5.0
MAX_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class _Attempts:
    count: int
    again_at: datetime


class UnwrittenResults:
    """Delays failed results, so that they neither block other results nor fill the log."""

    def __init__(self) -> None:
        self._by_job: dict[UUID, _Attempts] = {}

    def postponed(self, now: datetime) -> list[UUID]:
        """The jobs that are not tried again before a later time."""
        return [job_id for job_id, attempts in self._by_job.items() if attempts.again_at > now]

    def postpone(self, job_id: UUID, now: datetime) -> int:
        """Postpones a result. Returns how often writing it has failed."""
        count = self.attempts(job_id) + 1
        seconds = min(MAX_SECONDS, FIRST_SECONDS * 2.0 ** min(count - 1, 20))
        self._by_job[job_id] = _Attempts(count, now + timedelta(seconds=seconds))
        return count

    def attempts(self, job_id: UUID) -> int:
        found = self._by_job.get(job_id)
        return found.count if found else 0

    def forget_all_but(self, job_ids: Iterable[UUID]) -> None:
        """Forgets all other jobs: their results were written, by this or by another control plane."""
        kept = set(job_ids)
        self._by_job = {job_id: attempts for job_id, attempts in self._by_job.items() if job_id in kept}
