"""Positions in streams: the ids of server-sent events, and what clients send as Last-Event-ID. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from callsheet.wire.tenant.jobs import POSITION

# Few enough digits that every number fits into a bigint, and every time is one that a datetime can hold.
PATTERN = r"^[0-9]{1,18}(-[0-9]{1,17})?$"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


class Position(NamedTuple):
    """The number of an event, and when the event was written (decision 0048).

    A database that lost its last events gives their numbers out again. The time shows whether the number still belongs
    to the same event. It is None if a client sent only a number: it is not checked.
    """

    number: int
    at: datetime | None = None

    def __str__(self) -> str:
        return str(self.number) if self.at is None else f"{self.number}-{(self.at - EPOCH) // MICROSECOND}"


# Before the first event.
START = Position(0)


def position_of(text: str) -> Position:
    """Raises ValueError if the text is not a position."""
    if re.fullmatch(PATTERN, text, re.ASCII) is None:
        raise ValueError("The value must be the id of an event, for example 7-1772000000000000.")
    number, _, time = text.partition("-")
    return Position(int(number), EPOCH + int(time) * MICROSECOND if time else None)


class TenantPosition(NamedTuple):
    """An event among those of all jobs of a tenant: they are ordered by time, then by job and number."""

    at: datetime
    job_id: UUID = UUID(int=0)
    seq: int = 0

    def __str__(self) -> str:
        return f"{(self.at - EPOCH) // MICROSECOND}-{self.job_id.hex}-{self.seq}"


def tenant_position_of(text: str) -> TenantPosition:
    """Raises ValueError if the text is not a position."""
    if re.fullmatch(POSITION, text, re.ASCII) is None:
        raise ValueError("The value must be the id of an event of this stream.")
    time, job_id, seq = text.split("-")
    return TenantPosition(EPOCH + int(time) * MICROSECOND, UUID(hex=job_id), int(seq))
