"""Computes how many candidates a run is expected to make in each step. Pure.

It assumes that every job makes one image, that no job fails and that no user guides the run. The rules are those of
`selection`, for a run with one job at a time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from callsheet.wire.pipelines.pipelines import Strategy


class Link(NamedTuple):
    """The part of a step that decides how many candidates the next step has."""

    max_children: int
    top_k: int | None = None


def expected_candidates(chain: Sequence[Link], target_leaves: int, strategy: Strategy) -> list[int]:
    """The number of candidates of each step, from the first to the last."""
    per_base = math.prod(link.max_children for link in chain[:-1])
    is_wide = strategy is Strategy.BREADTH_FIRST
    counts = [target_leaves if is_wide else math.ceil(target_leaves / per_base)]
    for link in chain[:-1]:
        # A depth-first run does not wait for the best candidates.
        best = link.top_k if is_wide else None
        parents = counts[-1] if best is None else min(counts[-1], best)
        counts.append(parents * link.max_children)
    return counts
