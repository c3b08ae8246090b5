"""The slot of a job: its place in the tree of a run. And the replay of a candidate, which has no place in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID


@dataclass(frozen=True, slots=True)
class NewSlot:
    """The slot that a new job takes, in the transaction that writes the job (`slot_take`)."""

    run_id: UUID
    step_id: UUID
    position: int
    # None for a base.
    parent_id: UUID | None
    ordinal: int
    draw: int
    seed: int
    # The values from which the payload was built.
    lineage: Mapping[str, Any]
    # Limits of active jobs: of this run, and of all runs of its tenant.
    per_run: int
    in_total: int

    def as_json(self) -> Mapping[str, Any]:
        return {
            "run_id": str(self.run_id),
            "step_id": str(self.step_id),
            "parent_id": str(self.parent_id) if self.parent_id else None,
            "position": self.position,
            "ordinal": self.ordinal,
            "draw": self.draw,
            "seed": self.seed,
            "lineage": self.lineage,
            "per_run": self.per_run,
            "in_total": self.in_total,
        }


@dataclass(frozen=True, slots=True)
class ReplaySlot:
    """A replay counts in the budget of its run. It is not a job of the run, so the job names no run."""

    of_run: UUID
    # The position of the step whose candidate is made again.
    position: int
    run_id: None = None
    step_id: None = None
    parent_id: None = None

    def as_json(self) -> Mapping[str, Any]:
        return {"run_id": str(self.of_run), "replays": self.position}
