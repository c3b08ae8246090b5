"""The jobs that a simulation replays: submit time, run time and owner of each."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple


class TraceLane(NamedTuple):
    """The key by which the queue distinguishes jobs. Jobs with the same key wait in the order of their arrival."""

    tenant: str = ""
    user: str = ""
    priority: int = 0
    workflow: str = ""


class QueueTrace:
    """One row per job, in columns: 20 bytes per job, so that a year of ten million jobs fits into memory."""

    __slots__ = ("_key_numbers", "key_of", "keys", "run_seconds", "started_at", "submitted")

    def __init__(self, started_at: datetime | None = None) -> None:
        # The start time of `submitted`; None if the trace has seconds instead of dates.
        self.started_at = started_at
        self.submitted = array("d")
        self.run_seconds = array("d")
        # Index of the job's key in `keys`.
        self.key_of = array("i")
        self.keys: list[TraceLane] = []
        self._key_numbers: dict[TraceLane, int] = {}

    def __len__(self) -> int:
        return len(self.submitted)

    def number_of(self, key: TraceLane) -> int:
        number = self._key_numbers.get(key)
        if number is None:
            number = self._key_numbers[key] = len(self.keys)
            self.keys.append(key)
        return number

    def add(self, submitted: float, run_seconds: float, key: TraceLane) -> None:
        self.submitted.append(submitted)
        self.run_seconds.append(run_seconds)
        self.key_of.append(self.number_of(key))

    def rows(self) -> Iterator[tuple[float, float, TraceLane]]:
        keys = self.keys
        for submitted, run_seconds, number in zip(self.submitted, self.run_seconds, self.key_of, strict=True):
            yield submitted, run_seconds, keys[number]

    def in_order(self) -> QueueTrace:
        """Sorted by arrival; jobs of the same moment keep their order."""
        submitted = self.submitted
        if all(earlier <= later for earlier, later in pairwise(submitted)):
            return self
        order = sorted(range(len(self)), key=submitted.__getitem__)
        ordered = QueueTrace(self.started_at)
        ordered.keys, ordered._key_numbers = self.keys, self._key_numbers
        ordered.submitted = array("d", (submitted[place] for place in order))
        ordered.run_seconds = array("d", (self.run_seconds[place] for place in order))
        ordered.key_of = array("i", (self.key_of[place] for place in order))
        return ordered

    @property
    def span_seconds(self) -> float:
        """From the first arrival to the last."""
        return self.submitted[-1] - self.submitted[0] if self.submitted else 0.0

    @property
    def work_seconds(self) -> float:
        return sum(self.run_seconds)
