"""The filter of a list of jobs, as SQL statements get it, and the choice of the index that finds its jobs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from callsheet.jobs.show.search_terms import BEHIND_LAST, ids_between, patterns
from callsheet.wire.jobs import ACTIVE, JobStatus
from callsheet.wire.operate.all_jobs import BulkActionKind, JobFilter
from callsheet.wire.tasks import job_id_of

Source = Literal["all", "active", "ended", "unsuccessful", "error", "tenant", "user", "ids"]
UNSUCCESSFUL = frozenset({JobStatus.FAILED, JobStatus.CANCELED, JobStatus.EXPIRED})
# The statuses in which an action can change a job.
FITTING = {
    BulkActionKind.RETRY: frozenset({JobStatus.FAILED, JobStatus.EXPIRED}),
    BulkActionKind.CANCEL: ACTIVE,
    BulkActionKind.SET_PRIORITY: frozenset({JobStatus.PENDING, JobStatus.QUEUED}),
}


@dataclass(frozen=True, slots=True)
class ResolvedFilter:
    """A filter whose names were looked up in central. A field that is None does not filter."""

    filter: JobFilter
    workflow_ids: Sequence[int] | None = None
    effect_ids: Sequence[UUID] | None = None
    worker_job_ids: frozenset[UUID] | None = None
    # Whether the search text is also looked for in the texts that users wrote.
    searches_texts: bool = False

    @property
    def job_ids(self) -> list[UUID] | None:
        """The ids to which the filter is limited, by name, by the search text or by the worker."""
        named = [frozenset(self.filter.job_id)] if self.filter.job_id else []
        if (found := id_in(self.filter.q)) is not None:
            named.append(frozenset({found}))
        if self.worker_job_ids is not None:
            named.append(self.worker_job_ids)
        return sorted(frozenset.intersection(*named)) if named else None

    @property
    def source(self) -> Source:
        """The source with the fewest jobs."""
        statuses = frozenset(self.filter.status)
        if self.job_ids is not None:
            return "ids"
        if self.filter.fingerprint is not None:
            return "error"
        if self.filter.user_id is not None:
            return "user"
        if statuses and statuses <= ACTIVE:
            return "active"
        if self.filter.tenant_id is not None:
            return "tenant"
        if statuses and statuses <= UNSUCCESSFUL:
            return "unsuccessful"
        return "ended" if statuses and not statuses & ACTIVE else "all"

    @property
    def is_source_alone(self) -> bool:
        """Whether nearly every job of the source matches, so that a page reads no more jobs than it shows."""
        given = self.filter.model_dump(exclude_defaults=True)
        return (self.source == "all" and not given) or given.keys() == {"tenant_id"} or given.keys() == {"user_id"}

    def parameters(self, cursor: UUID | None) -> dict[str, Any]:
        wanted = self.filter
        since, before = ids_between(wanted.created_from, wanted.created_to)
        words = "" if id_in(wanted.q) is not None else wanted.q or ""
        return {
            **wanted.columns,
            "source": self.source,
            "tenant_id": wanted.tenant_id,
            "user_id": wanted.user_id,
            "fingerprint": wanted.fingerprint,
            "job_ids": self.job_ids,
            "since": since,
            "before": min(cursor or BEHIND_LAST, before),
            "statuses": [each.value for each in wanted.status] or None,
            "workflow_ids": None if self.workflow_ids is None else list(self.workflow_ids),
            "effect_ids": None if self.effect_ids is None else list(self.effect_ids),
            "kinds": list(wanted.kind) or None,
            "created_from": wanted.created_from,
            "created_to": wanted.created_to,
            "patterns": patterns(words) or None,
            "searches_texts": self.searches_texts,
        }


def id_in(text: str | None) -> UUID | None:
    """The job that a search text names by its id, or by its id as a task."""
    text = (text or "").strip().lower()
    if (job_id := job_id_of(text)) is not None:
        return job_id
    try:
        return UUID(text) if len(text) in (32, 36) else None
    except ValueError:
        return None


def fitting(kind: BulkActionKind, statuses: Sequence[JobStatus]) -> list[JobStatus]:
    """The statuses of a filter in which an action of this kind can change a job."""
    wanted = frozenset(statuses) or frozenset(JobStatus)
    return sorted(FITTING[kind] & wanted)
