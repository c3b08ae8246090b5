"""Converts the search text and the filters of a user to the parameters of a statement. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from callsheet.jobs.show.search_terms import BEHIND_LAST, ids_between, ids_of_batch, patterns
from callsheet.wire.library import LibraryFilter


class Filters(NamedTuple):
    """A filter whose effects were looked up in central. None: jobs of every effect."""

    wanted: LibraryFilter = LibraryFilter()
    effect_ids: Sequence[UUID] | None = None

    @property
    def statuses(self) -> list[str] | None:
        return [each.value for each in self.wanted.status] or None

    def parameters(self, cursor: UUID | None) -> dict[str, Any]:
        """All parameters except those of the status."""
        wanted = self.wanted
        since, before = ids_between(wanted.created_from, wanted.created_to)
        if wanted.batch_id is not None:
            first, last = ids_of_batch(wanted.batch_id)
            since, before = max(since, first), min(before, last)
        return {
            **wanted.columns,
            "before": min(cursor or BEHIND_LAST, before),
            "since": since,
            "kinds": wanted.kind or None,
            "media": [each.value for each in wanted.medium] or None,
            "actors": wanted.actor or None,
            "effect_ids": None if self.effect_ids is None else list(self.effect_ids),
            "created_from": wanted.created_from,
            "created_to": wanted.created_to,
            "patterns": patterns(wanted.q or "") or None,
        }
