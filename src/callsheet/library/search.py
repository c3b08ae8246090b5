"""What a person types into the search field and the filters beside it, as a statement takes it. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from callsheet.jobs.descriptions import folded
from callsheet.wire.jobs import JobStatus
from callsheet.wire.library import Medium

MOST_WORDS = 10
_SPECIAL = re.compile(r"[\\%_]")
# Ids carry the clock of the control plane that made them, `created_at` that of the database: so far apart at most.
CLOCKS = timedelta(hours=1)
FIRST, BEHIND_LAST = UUID(int=0), UUID(int=2**128 - 1)


@dataclass(frozen=True, slots=True)
class Filters:
    """Those of a list of jobs; what is empty or None lets every job pass."""

    text: str = ""
    statuses: Sequence[JobStatus] = ()
    kinds: Sequence[str] = ()
    media: Sequence[Medium] = ()
    actors: Sequence[str] = ()
    effect_ids: Sequence[UUID] | None = None
    run_id: UUID | None = None
    created_from: datetime | None = None
    created_to: datetime | None = None

    def parameters(self, cursor: UUID | None) -> dict[str, Any]:
        """All but those of the status."""
        before = min(cursor or BEHIND_LAST, _id_at(self.created_to, CLOCKS, BEHIND_LAST))
        return {
            "before": before,
            "since": _id_at(self.created_from, -CLOCKS, FIRST),
            "run_id": self.run_id,
            "kinds": list(self.kinds) or None,
            "media": [each.value for each in self.media] or None,
            "actors": list(self.actors) or None,
            "effect_ids": None if self.effect_ids is None else list(self.effect_ids),
            "created_from": self.created_from,
            "created_to": self.created_to,
            "patterns": patterns(self.text) or None,
        }


def patterns(text: str) -> list[str]:
    """For LIKE: every word must be there, in any order, also as a part of another word."""
    words = folded(text).split()[:MOST_WORDS]
    return ["%" + _SPECIAL.sub(lambda sign: f"\\{sign[0]}", word) + "%" for word in words]


def _id_at(time: datetime | None, slack: timedelta, otherwise: UUID) -> UUID:
    """The least UUIDv7 of a moment. Jobs have ids in the order of their time, so a range of time is a range of ids."""
    if time is None:
        return otherwise
    try:
        milliseconds = int((time.astimezone(UTC) + slack).timestamp() * 1000)
    except OverflowError:
        return otherwise
    return UUID(int=min(max(milliseconds, 0), 2**48 - 1) << 80)
