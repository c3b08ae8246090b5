"""Results that could not be written, for an unexpected reason: tried again later and later. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

FIRST_SECONDS = 5.0
LONGEST_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class _Trouble:
    times: int
    again_at: datetime


class Troubles:
    """One poisoned result must neither hold up the others nor fill the log; these wait."""

    def __init__(self) -> None:
        self._of_jobs: dict[UUID, _Trouble] = {}

    def waiting(self, now: datetime) -> list[UUID]:
        """Those whose time has not come."""
        return [job_id for job_id, trouble in self._of_jobs.items() if trouble.again_at > now]

    def add(self, job_id: UUID, now: datetime) -> int:
        """How many times it has failed."""
        times = self.times(job_id) + 1
        seconds = min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** min(times - 1, 20))
        self._of_jobs[job_id] = _Trouble(times, now + timedelta(seconds=seconds))
        return times

    def times(self, job_id: UUID) -> int:
        trouble = self._of_jobs.get(job_id)
        return trouble.times if trouble else 0

    def keep(self, job_ids: Iterable[UUID]) -> None:
        """All others have ended, here or at another control plane."""
        kept = set(job_ids)
        self._of_jobs = {job_id: trouble for job_id, trouble in self._of_jobs.items() if job_id in kept}
