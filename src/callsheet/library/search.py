"""Converts the search text and the filters of a user to the parameters of a statement. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from callsheet.jobs.show.search_terms import BEHIND_LAST, ids_between, patterns
from callsheet.wire.jobs import JobStatus
from callsheet.wire.library import Medium


@dataclass(frozen=True, slots=True)
class Filters:
    """The filters of a list of jobs. A filter that is empty or None matches every job."""

    text: str = ""
    statuses: Sequence[JobStatus] = ()
    kinds: Sequence[str] = ()
    media: Sequence[Medium] = ()
    actors: Sequence[str] = ()
    effect_ids: Sequence[UUID] | None = None
    run_id: UUID | None = None
    client_reference: str | None = None
    created_from: datetime | None = None
    created_to: datetime | None = None

    def parameters(self, cursor: UUID | None) -> dict[str, Any]:
        """All parameters except those of the status."""
        since, before = ids_between(self.created_from, self.created_to)
        return {
            "before": min(cursor or BEHIND_LAST, before),
            "since": since,
            "run_id": self.run_id,
            "client_reference": self.client_reference,
            "kinds": list(self.kinds) or None,
            "media": [each.value for each in self.media] or None,
            "actors": list(self.actors) or None,
            "effect_ids": None if self.effect_ids is None else list(self.effect_ids),
            "created_from": self.created_from,
            "created_to": self.created_to,
            "patterns": patterns(self.text) or None,
        }
