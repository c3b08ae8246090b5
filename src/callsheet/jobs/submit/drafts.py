"""A job as a quote sees it: what a request would become if it were submitted now. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from callsheet.identity.access.principal import Owner
from callsheet.jobs.submit.new_jobs import NewJob, NewTask
from callsheet.wire.errors import Refusal

NO_WORKFLOW = 0


@dataclass(frozen=True, slots=True)
class Draft:
    """`new` is the job, or as much of it as is known if there is a refusal."""

    new: NewJob
    # None if the request leaves the price open.
    cost: int | None = None
    refusal: Refusal | None = None

    @property
    def routes(self) -> Iterable[tuple[int, str, str]]:
        """The route of the job, if its workflow is known."""
        new = self.new
        return () if new.workflow_id == NO_WORKFLOW else [(new.workflow_id, new.stage, new.provider)]


def outline(owner: Owner, kind: str, task: NewTask | None = None) -> NewJob:
    """A job of which only the kind is known: it counts in the limits of its user like one."""
    return NewJob(owner.tenant_id, owner.user_id, kind, NO_WORKFLOW, payload={}, cost=0, task=task)
