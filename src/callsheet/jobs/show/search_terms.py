"""Converts search texts and ranges of time to parameters of SQL statements. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from uuid import UUID

from callsheet.jobs.show.descriptions import folded

MAX_WORDS = 10
_SPECIAL = re.compile(r"[\\%_]")
# Maximum difference of two clocks: ids use the clock of the control plane that made them, `created_at` uses the clock
# of the database.
CLOCKS = timedelta(hours=1)
# Longest time from the id of a batch to the ids of its jobs.
BATCH_MILLISECONDS = 60_000
FIRST, BEHIND_LAST = UUID(int=0), UUID(int=2**128 - 1)


def patterns(text: str) -> list[str]:
    """Patterns for LIKE: every word must occur, in any order, also as a part of another word."""
    words = folded(text).split()[:MAX_WORDS]
    return ["%" + _SPECIAL.sub(lambda sign: f"\\{sign[0]}", word) + "%" for word in words]


def ids_between(created_from: datetime | None, created_to: datetime | None) -> tuple[UUID, UUID]:
    """The least id that a job of this range of time can have, and an id above all of them."""
    return _id_at(created_from, -CLOCKS, FIRST), _id_at(created_to, CLOCKS, BEHIND_LAST)


def ids_of_batch(batch_id: UUID) -> tuple[UUID, UUID]:
    """The range of the ids of its jobs, which are made in the same moment as the id of the batch."""
    # Calculated with the id itself: one that a client made up may have a time that no calendar has.
    return batch_id, UUID(int=min(batch_id.int + (BATCH_MILLISECONDS << 80), BEHIND_LAST.int))


def _id_at(time: datetime | None, slack: timedelta, otherwise: UUID) -> UUID:
    """The least UUIDv7 of a moment. Jobs have ids in the order of their time, so a range of time is a range of ids."""
    if time is None:
        return otherwise
    try:
        milliseconds = int((time.astimezone(UTC) + slack).timestamp() * 1000)
    except OverflowError:
        return otherwise
    return UUID(int=min(max(milliseconds, 0), 2**48 - 1) << 80)
