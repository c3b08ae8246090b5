"""The slot of a job: its place in the tree of a run."""

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
